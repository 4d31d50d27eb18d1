/* GHS on the CPU: find the pivot of each sample, then multiply both axes, while the sample is in the cache.

   Plain C without Python or torch: pointers in, pointers out. A map is never rolled in memory: it is read or written
   around its edges instead. Every output is one sum over the rolled map, added up in the same order by the same
   operations wherever it lies, so equal maps give equal bits.

   Matrices come as bands: rows are taken in groups, and each group has a window of columns, around the edge if need be,
   beyond which it is zero. The window of a full matrix is all of it.

   Compiled with -fopenmp but linked to no OpenMP library: it uses the threads of the one that torch brings. */

#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

#define LANES 16
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(4 * LANES)));
typedef int32_t whole __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t word __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* goes around at 2^32 */
#define AT(pointer) (*(vec *)(pointer))

#define ROWS 4             /* of a matrix whose sums run over rows of a map */
#define LINES 8            /* rows of a map that are multiplied along together */
#define PIECE (32 * LANES) /* floats of which the search keeps the maxima */

#define STEPS (1 << 22)    /* as in pivots.py */
#define ROUND (3.0f * STEPS) /* adding it leaves no room for a fraction */
#define RUN 256            /* rows whose whole numbers an int32 can add up */
#define GOLDEN 1618        /* as in pivots.py, likewise */
#define TINY 0x1p-100f
#define HUGE 0x1p126f

enum { UNDECIDED = 1, NO_MEMORY = 2 };        /* as in native.py */
enum { NOTHING, MAXIMUM, PHASE, PATCH };      /* what is searched for, likewise */

/* a matrix (m, k): group g of its rows has `taps` columns from start[g] on, one after the other, rows side by side */
typedef struct {
  const float *weights; /* (groups, taps, rows of a group) */
  const int64_t *start;
  long taps;
} band;

typedef struct {
  const float *in;
  float *out;
  long samples, channels, h, w, n1, n2; /* (h, w) -> (n1, n2) */
  band first, second;                   /* (n1, h) and (n2, w) */
  int64_t *pivots;                      /* (samples, 2) */
  uint8_t *undecided;                   /* (samples), or NULL: samples that are not sampled */
  long origin[2];                       /* where they are moved to */
  long first_sample[2], stay;           /* as in grids.py; whether samples are rolled back: `Plan.moved` */
  long phases[2];                       /* of the grid on both axes */
  int search;
  int together, transpose;              /* pixels lie together; transpose: the output is rolled, not the input */
  long pieces;                          /* in which one sample is worked on: planes, or stretches of rows */
} job;

INLINE long padded(long n) { return (n + LANES - 1) / LANES * LANES; }
INLINE long smaller(long a, long b) { return a < b ? a : b; }
INLINE long wrap(long i, long n) { return ((i % n) + n) % n; }
INLINE long around(long i, long n) { return i < n ? i : i - n; } /* for i < 2 n */

/* where the rolled map of a sample begins, and where its rolled samples begin, on one axis: `Plan.moved` */
INLINE void start(const job *t, long sample, int axis, long *map, long *samples) {
  long in = axis ? t->w : t->h, out = axis ? t->n2 : t->n1;
  long size = t->transpose ? out : in, count = t->transpose ? in : out;
  long at = t->pivots[2 * sample + axis] - t->origin[axis], place = 2 * count * at + t->first_sample[axis];
  *map = wrap(at, size);
  *samples = t->stay ? wrap((place - wrap(place, 2 * size)) / (2 * size), count) : 0;
}

/* where what is read of a sample begins, and where what is written */
INLINE void starts(const job *t, long sample, long from[2], long to[2]) {
  for (int axis = 0; axis < 2; axis++)
    if (t->transpose)
      start(t, sample, axis, to + axis, from + axis);
    else
      start(t, sample, axis, from + axis, to + axis);
}

/* the length of a row that has its first entry once more at its end, and may be read by vectors */
INLINE long beside(long n) { return padded(n) + LANES; }

/* how many floats `planes`, `pixels` and the searches need to work with */
INLINE long room(const job *t) {
  long size = t->h * t->w, pieces = (size * t->channels / PIECE + 1) * LANES;
  if (t->search == PHASE) pieces = 2 * t->phases[0] * t->phases[1] + padded(t->w) + size + LANES;
  if (t->search == PATCH) pieces = (t->h + 2) * beside(t->w) + size + LANES;
  long maps = t->together ? (t->h * t->n2 + t->w) * t->channels + 2 * LANES + t->h
                          : t->n1 * padded(t->w) + LINES * padded(t->n2) + (t->h + 1) * LANES;
  return maps > pieces ? maps : pieces;
}

/* the first `left` floats of a vector; the sign of a zero leaves no trace */
INLINE void store(float *to, vec value, long left) {
  value += 0.0f;
  if (left >= LANES)
    AT(to) = value;
  else
    memcpy(to, &value, sizeof(float) * left);
}

/* C (m x n) = A B, with a band A: the rows of B, of which there are k, begin with `from` and those of C with `to`, and
   both go around the edge. Rows of B shorter than a vector are read beyond their end. */
typedef struct {
  long m, k, n;
  band a;
  const float *b;
  long ldb, from;
  float *c;
  long ldc, to;
} product;

INLINE void tile(const int vectors, const product *t, long i, long j) {
  vec sum[ROWS][4];
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sum[r][v] = (vec){0};
  const float *a = t->a.weights + i * t->a.taps;
  long at = around(t->a.start[i / ROWS] + t->from, t->k), before = smaller(t->a.taps, t->k - at);
#pragma GCC unroll 1
  for (int part = 0; part < 2; part++) { /* up to the edge, and on from the other side */
    const float *b = t->b + (part ? 0 : at) * t->ldb + j;
    for (long p = part ? t->a.taps - before : before; p > 0; p--, a += ROWS, b += t->ldb)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        vec x = AT(b + LANES * v);
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++) sum[r][v] += a[r] * x;
      }
  }
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; r++) {
    if (i + r >= t->m) break;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
      store(t->c + around(t->to + i + r, t->m) * t->ldc + j + LANES * v, sum[r][v], t->n);
  }
}

/* ROWS rows of C, from i on */
INLINE void rows(const product *t, long i) {
  long j = 0;
  for (; j + 4 * LANES <= t->n; j += 4 * LANES) tile(4, t, i, j);
  for (; j + LANES <= t->n; j += LANES) tile(1, t, i, j);
  if (j < t->n) tile(1, t, i, t->n < LANES ? 0 : t->n - LANES); /* the last ones, some of them once more */
}

/* up to LINES rows of C = B A^T along the rows of B, which have k entries and begin with `from`; A has n rows */
INLINE void lines(const int count, long k, long n, const band *a, const float *b, long ldb, long from, float *c,
                  long ldc) {
  for (long j = 0; j < n; j += LANES) {
    vec sum[LINES];
#pragma GCC unroll 8
    for (int r = 0; r < count; r++) sum[r] = (vec){0};
    const float *weights = a->weights + j * a->taps;
    long at = around(a->start[j / LANES] + from, k), before = smaller(a->taps, k - at);
#pragma GCC unroll 1
    for (int part = 0; part < 2; part++) {
      const float *x = b + (part ? 0 : at);
      for (long p = part ? a->taps - before : before; p > 0; p--, x++, weights += LANES) {
        vec w = AT(weights);
#pragma GCC unroll 8
        for (int r = 0; r < count; r++) sum[r] += x[r * ldb] * w;
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < count; r++) store(c + r * ldc + j, sum[r], n - j);
  }
}

/* some of the planes (h, w), one after the other */
CLONES static void planes(const job *t, float *scratch, long from, long to) {
  long wide = padded(t->w), size = t->h * t->w, n1 = t->n1, n2 = t->n2;
  float *middle = scratch, *some = middle + n1 * wide, *copy = some + LINES * padded(n2);
  for (long p = from; p < to; p++) {
    const float *in = t->in + p * size;
    float *out = t->out + p * n1 * n2;
    long begin[2], end[2];
    if (t->undecided && t->undecided[p / t->channels]) continue;
    starts(t, p / t->channels, begin, end);
    if (t->w < LANES && (t->samples * t->channels - p - 1) * size < LANES) /* nothing readable after it */
      in = memcpy(copy, in, sizeof(float) * size);
    const int rolled = end[0] || end[1];
    const product down = {.m = n1, .k = t->h, .n = t->w, .a = t->first, .b = in, .ldb = t->w,
                          .from = begin[0], .c = middle, .ldc = wide};
    for (long i = 0; i < n1; i += ROWS) rows(&down, i);
    for (long i = 0, count; i < n1; i += count) {
      count = n1 - i < LINES ? 1 : LINES;
      const float *row = middle + i * wide;
      float *to = rolled ? some : out + i * n2;
      if (count == 1) /* a number the compiler knows */
        lines(1, t->w, n2, &t->second, row, wide, begin[1], to, n2);
      else
        lines(LINES, t->w, n2, &t->second, row, wide, begin[1], to, n2);
      for (long k = 0; rolled && k < count; k++) {
        float *line = out + around(end[0] + i + k, n1) * n2;
        memcpy(line + end[1], some + k * n2, sizeof(float) * (n2 - end[1]));
        memcpy(line, some + (k + 1) * n2 - end[1], sizeof(float) * end[1]);
      }
    }
  }
}

/* some of the pieces of maps (h, w, channels) whose pixels lie together: rows of the output, and what they need of the
   rows of the input, each made narrower once */
CLONES static void pixels(const job *t, float *scratch, long from, long to) {
  const long line = t->w * t->channels, narrow = t->n2 * t->channels;
  float *middle = scratch, *copy = middle + t->h * narrow + LANES, *done = copy + line + LANES;
  for (long unit = from; unit < to; unit++) {
    long b = unit / t->pieces, piece = unit % t->pieces, begin[2], end[2];
    long groups = (t->n1 + ROWS - 1) / ROWS, first = groups * piece / t->pieces * ROWS;
    long last = smaller(groups * (piece + 1) / t->pieces * ROWS, t->n1);
    if (t->undecided && t->undecided[b]) continue;
    starts(t, b, begin, end);
    product down = {.m = t->n1, .k = t->h, .n = narrow, .a = t->first, .b = middle, .ldb = narrow,
                    .c = t->out + b * t->n1 * narrow, .ldc = narrow, .to = end[0]};
    memset(done, 0, sizeof(float) * t->h);
    for (long i = first; i < last; i += ROWS) {
      for (long p = 0; p < t->first.taps; p++) {
        long at = around(t->first.start[i / ROWS] + p, t->h), row = around(begin[0] + at, t->h);
        if (done[at]) continue;
        done[at] = 1;
        const float *in = t->in + (b * t->h + row) * line;
        if (t->channels < LANES && ((t->samples - b) * t->h - row - 1) * line < LANES) /* nothing readable after it */
          in = memcpy(copy, in, sizeof(float) * line);
        const product along = {.m = t->n2, .k = t->w, .n = t->channels, .a = t->second, .b = in, .ldb = t->channels,
                               .from = begin[1], .c = middle + at * narrow, .ldc = t->channels, .to = end[1]};
        for (long j = 0; j < t->n2; j += ROWS) rows(&along, j);
      }
      rows(&down, i);
    }
  }
}

/* the larger of two, lane by lane; gcc has instructions for a choice, but takes a comparison kept for later apart */
#define LARGER(a, b) ((__typeof__(b))(((mask)(a) & ((a) > (b))) | ((mask)(b) & ~((a) > (b)))))

/* Each search finds the position of the largest score of a sample; it returns 1 where the sample has NaN, or that score
   at several positions. Here the score is the largest value over the channels. */
CLONES static int search_maximum(const job *t, float *best, long b) {
  long size = t->h * t->w, n = size * t->channels, pieces = (n + PIECE - 1) / PIECE;
  const float *in = t->in + b * n;
  vec most = (vec){0} + in[0];
  mask extreme[4] = {{0}}; /* the bits of a NaN are above those of all numbers */
  for (long i = 0; i < pieces; i++) {
    long k = i * PIECE, end = k + PIECE < n ? k + PIECE : n;
    vec top[4];
    for (int v = 0; v < 4; v++) top[v] = (vec){0} + in[k];
    for (; k + 4 * LANES <= end; k += 4 * LANES)
#pragma GCC unroll 4
      for (int v = 0; v < 4; v++) {
        vec next = AT(in + k + v * LANES);
        mask bits = (mask)next & 0x7fffffff;
        top[v] = LARGER(next, top[v]);
        extreme[v] = LARGER(bits, extreme[v]);
      }
    for (; k < end; k += LANES) {
      vec next = (vec){0} + in[k];
      memcpy(&next, in + k, sizeof(float) * (k + LANES <= end ? LANES : end - k));
      mask bits = (mask)next & 0x7fffffff;
      top[0] = LARGER(next, top[0]);
      extreme[0] = LARGER(bits, extreme[0]);
    }
    for (int v = 1; v < 4; v++) top[0] = LARGER(top[v], top[0]);
    most = LARGER(top[0], most);
    AT(best + i * LANES) = top[0]; /* of this piece, lane by lane */
  }
  float top = most[0];
  int undecided = 0, found = 0;
  for (int l = 0; l < LANES; l++) {
    top = most[l] > top ? most[l] : top;
    for (int v = 0; v < 4; v++) undecided |= extreme[v][l] > 0x7f800000;
  }
  long where = 0;
  for (long i = 0; i < pieces && !undecided; i++) {
    int here = 0;
    for (int l = 0; l < LANES; l++) here |= best[i * LANES + l] == top;
    for (long k = i * PIECE; here && k < n && k < (i + 1) * PIECE; k++)
      if (in[k] == top) {
        long place = t->together ? k / t->channels : k % size;
        undecided |= found && where != place;
        where = place, found = 1;
      }
  }
  t->pivots[2 * b] = where / t->w, t->pivots[2 * b + 1] = where % t->w;
  return undecided;
}

/* the largest entry of a vector */
INLINE float largest(vec value) {
  float top = value[0];
  for (int l = 1; l < LANES; l++) top = value[l] > top ? value[l] : top;
  return top;
}

/* a vector of the `left` floats at `from`, at least one, the first of them in place of what is missing */
INLINE void load(vec *to, const float *from, long left) {
  if (left >= LANES)
    *to = AT(from);
  else {
    *to = (vec){0} + from[0];
    memcpy(to, from, sizeof(float) * left);
  }
}

/* the largest values over some planes at the 16 positions from p on, and over what is there already */
INLINE void over(const int count, const float *in, long size, long p, int first, float *score, mask *extreme) {
  vec top = AT(in + p);
  mask bits = (mask)top & 0x7fffffff;
#pragma GCC unroll 4
  for (int c = 1; c < count; c++) {
    vec next = AT(in + c * size + p);
    mask others = (mask)next & 0x7fffffff;
    top = LARGER(next, top);
    bits = LARGER(others, bits);
  }
  *extreme = LARGER(bits, *extreme);
  if (!first) {
    vec before = AT(score + p);
    top = LARGER(top, before);
  }
  AT(score + p) = top;
}

/* the largest value over the channels at each position of a sample; whether there is NaN */
INLINE int maxima(const job *t, float *score, const float *in) {
  const long size = t->h * t->w, n = t->channels;
  mask extreme = {0};
  if (t->together ? n < LANES : size < LANES) { /* shorter than a vector */
    int32_t bits, most = 0;
    for (long p = 0; p < size; p++)
      for (long c = 0; c < n; c++) {
        const float *next = in + (t->together ? p * n + c : c * size + p);
        memcpy(&bits, next, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
        score[p] = c && !(*next > score[p]) ? score[p] : *next;
      }
    return most > 0x7f800000;
  }
  if (t->together)
    for (long p = 0; p < size; p++, in += n) {
      vec top = AT(in);
      mask bits = (mask)top & 0x7fffffff;
      for (long c = LANES; c < n; c += LANES) {
        vec next = AT(in + smaller(c, n - LANES)); /* the last ones, some of them once more */
        mask others = (mask)next & 0x7fffffff;
        top = LARGER(next, top);
        bits = LARGER(others, bits);
      }
      extreme = LARGER(bits, extreme);
      score[p] = largest(top);
    }
  else
    for (long c = 0, count; c < n; c += count, in += count * size) {
      count = n - c < 4 ? 1 : 4;
      for (long p = 0; p < size; p += LANES)
        if (count == 1) /* a number the compiler knows */
          over(1, in, size, smaller(p, size - LANES), !c, score, &extreme);
        else
          over(4, in, size, smaller(p, size - LANES), !c, score, &extreme);
    }
  int ill = 0;
  for (int l = 0; l < LANES; l++) ill |= extreme[l] > 0x7f800000;
  return ill;
}

/* the same score in the phase in which it has the largest sum: `pivots.score_phase`; added up are whole numbers, STEPS
   from nothing to the largest, so that the order does not matter; a sum over RUN of them still is an int32 */
CLONES static int search_phases(const job *t, float *scratch, long b) {
  const long size = t->h * t->w, rows = t->phases[0], columns = t->phases[1], wide = padded(t->w);
  const vec most = (vec){0} + FLT_MAX, round = (vec){0} + ROUND;
  int64_t *sums = (int64_t *)scratch;
  int32_t *line = (int32_t *)(sums + rows * columns);
  float *score = (float *)(line + wide);
  if (maxima(t, score, t->in + b * size * t->channels)) return 1;
  vec top = {0};
  for (long p = 0; p < size; p += LANES) {
    vec level;
    load(&level, score + p, size - p);
    level = (vec)((mask)level & 0x7fffffff);
    top = LARGER(level, top);
  }
  float scale = largest(top);
  scale = scale > FLT_MAX ? FLT_MAX : scale > 0 ? scale : 1;
  memset(sums, 0, sizeof(int64_t) * rows * columns);
  for (long a = 0; a < rows; a++)
    for (long i = a, from = a; i < t->h; from = i) {
      memset(line, 0, sizeof(int32_t) * wide);
      for (; i < t->h && i - from < RUN * rows; i += rows)
        for (long j = 0; j < t->w; j += LANES) {
          vec value;
          load(&value, score + i * t->w + j, t->w - j);
          value = LARGER(-most, value);
          value = -LARGER(-most, -value);
          value = (value / scale * STEPS + round) - round;
          *(whole *)(line + j) += __builtin_convertvector(value, mask);
        }
      for (long j = 0, k = 0; j < t->w; j++, k = around(k + 1, columns)) sums[a * columns + k] += line[j];
    }
  int64_t best = sums[0];
  for (long k = 1; k < rows * columns; k++) best = sums[k] > best ? sums[k] : best;
  long where = -1, times = 0;
  for (long k = 0; k < rows * columns; k++)
    for (long i = k / columns; sums[k] == best && i < t->h; i += rows)
      for (long j = k % columns; j < t->w; j += columns) {
        long p = i * t->w + j;
        if (where < 0 || score[p] > score[where])
          where = p, times = 1;
        else
          times += score[p] == score[where];
      }
  t->pivots[2 * b] = where / t->w, t->pivots[2 * b + 1] = where % t->w;
  return times > 1;
}

/* the numbers of the pixels of a sample, `pivots.score_patch`, in rows of `beside(w)`; whether there is NaN */
INLINE int pixel_codes(const job *t, const float *in, int32_t *codes) {
  const long size = t->h * t->w, n = t->channels, wide = beside(t->w);
  const vec round = (vec){0} + ROUND, limit = (vec){0} + 256;
  vec level;
  mask extreme = {0};
  for (long k = 0; k < size * n; k += LANES) {
    load(&level, in + k, size * n - k);
    mask bits = (mask)level & 0x7fffffff;
    extreme = LARGER(bits, extreme);
  }
  int32_t most = 0;
  for (int l = 0; l < LANES; l++) most = extreme[l] > most ? extreme[l] : most;
  if (most > 0x7f800000) return 1;
  float top;
  memcpy(&top, &most, sizeof top);
  const float scale = 1 / (top > HUGE ? HUGE : top < TINY ? TINY : top) * 256;
  for (long i = 0; i < t->h; i++)
    for (long j = 0; j < t->w; j += LANES) {
      word code = {0};
      for (long c = 0; c < n; c++) {
        if (t->together)
          for (int l = 0; l < LANES; l++) level[l] = in[(i * t->w + smaller(j + l, t->w - 1)) * n + c];
        else
          load(&level, in + (c * t->h + i) * t->w + j, t->w - j);
        level *= scale;
        level = LARGER(-limit, level);
        level = -LARGER(-limit, -level);
        level = (level + round) - round;
        code += (word)__builtin_convertvector(level, mask) * (uint32_t)((c + 1) * GOLDEN % 4096);
      }
      *(word *)(codes + i * wide + j) = code & 0x1fff;
    }
  for (long i = 0; i < t->h; i++) codes[i * wide + t->w] = codes[i * wide];
  for (long i = 0; i < 2; i++) /* the first rows once more after the last */
    memcpy(codes + (t->h + i) * wide, codes + i % t->h * wide, sizeof(int32_t) * wide);
  return 0;
}

/* the score is a number of the patch at a position: `pivots.score_patch` */
CLONES static int search_patch(const job *t, float *scratch, long b) {
  const long size = t->h * t->w, wide = beside(t->w);
  int32_t *codes = (int32_t *)scratch, *score = codes + (t->h + 2) * wide;
  if (pixel_codes(t, t->in + b * size * t->channels, codes)) return 1;
  mask most = {0};
  for (long i = 0; i < t->h; i++)
    for (long j = 0; j < t->w; j += LANES) {
      const int32_t *at = codes + i * wide + j;
      word sum = 4093 * *(word *)at - 7919 * *(word *)(at + 1) + 6101 * *(word *)(at + wide);
      mask patch = (mask)(sum - 2275 * *(word *)(at + 2 * wide + 1)) & 0xffffff;
      if (t->w - j < LANES) /* beyond the end of the row */
        for (long l = t->w - j; l < LANES; l++) patch[l] = 0;
      most = LARGER(patch, most);
      memcpy(score + i * t->w + j, &patch, sizeof(int32_t) * smaller(LANES, t->w - j));
    }
  int32_t best = 0;
  for (int l = 0; l < LANES; l++) best = most[l] > best ? most[l] : best;
  long where = 0, times = 0;
  for (long p = 0; p < size; p++)
    if (score[p] == best) where = p, times++;
  t->pivots[2 * b] = where / t->w, t->pivots[2 * b + 1] = where % t->w;
  return times > 1;
}

/* Find the pivots (`search`), sample the maps there (`out`), or both, sample after sample while it is in the cache.
   sizes: samples, channels, h, w, n1, n2, the origin, taps of both matrices, phases, first samples, stay; bands: weights
   and starts of the first matrix, then of the second; see `job` for the rest. A search flags the
   samples that it cannot decide. Returns 0, UNDECIDED where a flag is set, or NO_MEMORY. */
int shiftproof_sample(const float *in, float *out, const int64_t *sizes, const void *const *bands, int64_t *pivots,
                      uint8_t *undecided, int search, int together, int transpose, int threads) {
  job t = {.in = in, .out = out, .samples = sizes[0], .channels = sizes[1], .h = sizes[2], .w = sizes[3],
           .n1 = sizes[4], .n2 = sizes[5], .pivots = pivots, .undecided = undecided, .origin = {sizes[6], sizes[7]},
           .first = {bands[0], bands[1], sizes[8]}, .second = {bands[2], bands[3], sizes[9]},
           .phases = {sizes[10], sizes[11]}, .first_sample = {sizes[12], sizes[13]}, .stay = sizes[14],
           .search = search, .together = together, .transpose = transpose};
  int (*const searches[])(const job *, float *, long) = {NULL, search_maximum, search_phases, search_patch};
  int code = 0;
  if (search && out && t.samples < 2 * threads) { /* too few to share them out */
    code = shiftproof_sample(in, NULL, sizes, bands, pivots, undecided, search, together, 0, threads);
    if (code & NO_MEMORY) return NO_MEMORY;
    search = t.search = NOTHING;
  }
  t.pieces = !together ? t.channels : t.samples < 2 * threads ? threads : 1;
  long parts = search ? t.samples : t.samples * t.pieces, each = search ? t.pieces : 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) reduction(| : code)
  for (int i = 0; i < threads; i++) {
    float *scratch = malloc(sizeof(float) * room(&t));
    long from = parts * i / threads, to = parts * (i + 1) / threads, step = search ? 1 : to - from;
    if (!scratch) code |= NO_MEMORY;
    for (; scratch && from < to; from += step) {
      if (search) {
        undecided[from] = searches[search](&t, scratch, from);
        code |= undecided[from];
      }
      if (out) (together ? pixels : planes)(&t, scratch, from * each, (from + step) * each);
    }
    free(scratch);
  }
  return code & NO_MEMORY ? NO_MEMORY : code;
}
