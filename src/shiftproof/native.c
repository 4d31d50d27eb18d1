/* GHS on the CPU: find the maximum of each sample, then multiply both axes, while the sample is in the cache.

   Plain C without Python or torch: pointers in, pointers out. A map is never turned in memory: it is read and written
   around its edges instead. Every output is one sum, added up in the order of the turned map by the same operations
   wherever it lies, so equal maps give equal bits.

   Compiled with -fopenmp but linked to no OpenMP library: it uses the threads of the one that torch brings. */

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

#define ROWS 8
#define BLOCK (2 * LANES)

enum { NO_MEMORY = 1, UNDECIDED = 2 };

#define PIECE (32 * LANES) /* floats of which the search keeps one maximum */

INLINE long padded(long n) { return (n + LANES - 1) / LANES * LANES; }
INLINE long wrap(long i, long n) { return ((i % n) + n) % n; }

/* the first `left` floats of a vector */
INLINE void store(float *to, vec value, long left) {
  if (left >= LANES) {
    *(vec *)to = value;
    return;
  }
  float lane[LANES];
  memcpy(lane, &value, sizeof lane);
  long done = 0;
#define SOME(n) \
  if (left & n) memcpy(to + done, lane + done, n * sizeof(float)), done += n
  SOME(8);
  SOME(4);
  SOME(2);
  SOME(1);
#undef SOME
}

/* A product C = A B of an (m x k) and a (k x n) matrix. `a` is packed (lda 0: its rows eight by eight, those of one
   column together) or plain. Columns of A, rows of B and rows of C may begin somewhere and go around the edge. Rows of B
   are read up to the next multiple of 16 beyond n. */
typedef struct {
  long m, k, n;
  const float *a;
  long lda, a_from;
  const float *b;
  long ldb, b_from;
  float *c;
  long ldc, c_from;
} product;

/* rows i.. and 16 * vectors columns j.. of C, summed over k in order */
INLINE void tile(const int rows, const int vectors, const product *t, long i, long j) {
  vec sum[ROWS][2];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) sum[r][v] = (vec){0};
  const int packed = t->lda == 0;
  const long down = packed ? 1 : t->lda, right = packed ? ROWS : 1;
  const float *a = packed ? t->a + i / ROWS * ROWS * t->k + i % ROWS : t->a + i * t->lda;
  const long edge = t->k - (packed ? t->b_from : t->a_from + t->b_from); /* one of the two is 0 */
#pragma GCC unroll 1
  for (int part = 0; part < 2; part++) { /* up to the edge, and on from the other side */
    const float *left = a + (packed ? part * edge * ROWS : part ? (t->a_from ? 0 : edge) : t->a_from);
    const float *above = t->b + j + (part ? (t->b_from ? 0 : edge) : t->b_from) * t->ldb;
    const long steps = part ? t->k - edge : edge;
    for (long p = 0; p < steps; p++) {
      vec row[2];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) row[v] = *(const vec *)(above + p * t->ldb + LANES * v);
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[r][v] += left[r * down + p * right] * row[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    long at = t->c_from + i + r;
    float *line = t->c + (at < t->m ? at : at - t->m) * t->ldc + j;
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) /* + 0: the sign of a zero leaves no trace */
      store(line + LANES * v, sum[r][v] + 0.0f, t->n - j - LANES * v);
  }
}

INLINE void columns(const int vectors, const product *t, long j) {
  long i = 0;
  for (; i + 8 <= t->m; i += 8) tile(8, vectors, t, i, j);
  if (i + 4 <= t->m) tile(4, vectors, t, i, j), i += 4;
  if (i + 2 <= t->m) tile(2, vectors, t, i, j), i += 2;
  if (i < t->m) tile(1, vectors, t, i, j);
}

INLINE void multiply(const product t) {
  long j = 0;
  for (; j + LANES < t.n; j += 2 * LANES) columns(2, &t, j);
  if (j < t.n) columns(1, &t, j);
}

typedef struct {
  const float *in;
  float *out;
  long samples, channels, h, w, n1, n2; /* (h, w) -> (n1, n2) */
  const float *first;                   /* (n1, h), packed */
  const float *second;                  /* pixels: (n2, w), packed; planes: (w, n2), backwards with its rows twice */
  int64_t *pivots;                      /* (samples or samples * channels, 2) */
  long origin[2];                       /* where they are moved to */
  int together, per_channel, backwards; /* pixels lie together; backwards: the output is turned, not the input */
} job;

/* the pieces in which one sample is worked on: blocks of channels or planes */
INLINE long units(const job *t) { return t->together ? (t->channels + BLOCK - 1) / BLOCK : t->channels; }

/* where the turned map of a sample begins */
INLINE void start(const job *t, long sample, long *r, long *c) {
  *r = wrap(t->pivots[2 * sample] - t->origin[0], t->backwards ? t->n1 : t->h);
  *c = wrap(t->pivots[2 * sample + 1] - t->origin[1], t->backwards ? t->n2 : t->w);
}

/* how many floats `planes`, `pixels` and `search` want to work with */
INLINE long room(const job *t) {
  long maps = t->together ? ((t->backwards ? t->n1 * t->w : t->n2 * t->h) + t->h * t->w) * BLOCK
                          : t->n1 * padded(t->w) + t->h * t->w + LANES;
  long pieces = t->h * t->w * t->channels / PIECE + 1;
  return maps > pieces * LANES ? maps : pieces * LANES;
}

/* some of the planes (h, w), one after the other */
CLONES void planes(const job *t, float *scratch, long from, long to) {
  long wide = padded(t->w), size = t->h * t->w, narrow = padded(t->backwards ? 2 * t->n2 + LANES - 1 : t->n2);
  float *half = scratch, *copy = half + t->n1 * wide;
  for (long p = from; p < to; p++) {
    const float *in = t->in + p * size;
    float *out = t->out + p * t->n1 * t->n2;
    long r, c;
    start(t, t->per_channel ? p : p / t->channels, &r, &c);
    if (wide > t->w && (t->samples * t->channels - p - 1) * size < LANES) /* nothing readable behind it */
      in = memcpy(copy, in, sizeof(float) * size);
    multiply((product){.m = t->n1, .k = t->h, .n = wide, .a = t->first, .b = in, .ldb = t->w,
                       .b_from = t->backwards ? 0 : r, .c = half, .ldc = wide});
    if (t->backwards) /* columns of the output are turned by reading the matrix from further on */
      multiply((product){.m = t->n1, .k = t->w, .n = t->n2, .a = half, .lda = wide, .b = t->second + t->n2 - c,
                         .ldb = narrow, .c = out, .ldc = t->n2, .c_from = r});
    else
      multiply((product){.m = t->n1, .k = t->w, .n = t->n2, .a = half, .lda = wide, .a_from = c, .b = t->second,
                         .ldb = narrow, .c = out, .ldc = t->n2});
  }
}

/* `count` channels of n pixels, each filled up to `wide` */
INLINE void gather(float *to, const float *from, long n, long channels, long count, long wide) {
  for (long j = 0; j < n; j++) {
    memcpy(to + j * wide, from + j * channels, sizeof(float) * count);
    memset(to + j * wide + count, 0, sizeof(float) * (wide - count));
  }
}

/* some of the blocks of up to 32 channels of maps (h, w, channels), whose pixels lie together. Large maps are read and
   written row by row: forwards the rows are multiplied first, backwards last. */
CLONES void pixels(const job *t, float *scratch, long from, long to) {
  const long blocks = units(t), channels = t->channels;
  float *half = scratch, *copy = half + (t->backwards ? t->n1 * t->w : t->n2 * t->h) * BLOCK;
  for (long u = from; u < to; u++) {
    long b = u / blocks, c0 = u % blocks * BLOCK, count = channels - c0 < BLOCK ? channels - c0 : BLOCK;
    long wide = padded(count), line = t->w * channels, r, c;
    const float *in = t->in + b * t->h * line + c0;
    float *out = t->out + b * t->n1 * t->n2 * channels + c0;
    start(t, b, &r, &c);
    if (!t->backwards) {
      long step = channels;
      if (wide > count && b == t->samples - 1) { /* behind the last pixel nothing is readable */
        gather(copy, in, t->h * t->w, channels, count, wide);
        in = copy, step = wide, line = t->w * wide;
      }
      for (long i = 0; i < t->h; i++) /* half: (n2, h, wide) */
        multiply((product){.m = t->n2, .k = t->w, .n = wide, .a = t->second,
                           .b = in + (r + i < t->h ? r + i : r + i - t->h) * line, .ldb = step, .b_from = c,
                           .c = half + i * wide, .ldc = t->h * wide});
      for (long n = 0; n < t->n2; n++)
        multiply((product){.m = t->n1, .k = t->h, .n = count, .a = t->first, .b = half + n * t->h * wide, .ldb = wide,
                           .c = out + n * channels, .ldc = t->n2 * channels});
    } else {
      gather(copy, in, t->h * t->w, channels, count, wide);
      multiply((product){.m = t->n1, .k = t->h, .n = t->w * wide, .a = t->first, .b = copy, .ldb = t->w * wide,
                         .c = half, .ldc = t->w * wide}); /* half: (n1, w, wide) */
      for (long i = 0; i < t->n1; i++)
        multiply((product){.m = t->n2, .k = t->w, .n = count, .a = t->second, .b = half + i * t->w * wide, .ldb = wide,
                           .c = out + (r + i < t->n1 ? r + i : r + i - t->n1) * t->n2 * channels, .ldc = channels,
                           .c_from = c});
    }
  }
}

/* the larger of two, lane by lane; gcc has instructions for a choice, but takes a comparison kept for later apart */
#define LARGER(a, b) ((__typeof__(b))(((mask)(a) & ((a) > (b))) | ((mask)(b) & ~((a) > (b)))))

/* the position of the largest value over all channels of a sample; 1 where it has NaN or that value at several places */
CLONES int search(const job *t, float *best, long b) {
  long size = t->h * t->w, n = size * t->channels, pieces = (n + PIECE - 1) / PIECE;
  const float *in = t->in + b * n;
  vec most = (vec){0} + in[0];
  mask extreme = (mask){0}; /* the bits of a NaN are above those of all numbers */
  for (long i = 0; i < pieces; i++) {
    long k = i * PIECE, end = k + PIECE < n ? k + PIECE : n;
    vec top[4];
    for (int v = 0; v < 4; v++) top[v] = (vec){0} + in[k];
    for (; k + 4 * LANES <= end; k += 4 * LANES)
#pragma GCC unroll 4
      for (int v = 0; v < 4; v++) {
        vec next = *(const vec *)(in + k + v * LANES);
        mask bits = (mask)next & 0x7fffffff;
        top[v] = LARGER(next, top[v]);
        extreme = LARGER(bits, extreme);
      }
    for (; k < end; k += LANES) {
      vec next = (vec){0} + in[k];
      memcpy(&next, in + k, sizeof(float) * (k + LANES <= end ? LANES : end - k));
      mask bits = (mask)next & 0x7fffffff;
      top[0] = LARGER(next, top[0]);
      extreme = LARGER(bits, extreme);
    }
    for (int v = 1; v < 4; v++) top[0] = LARGER(top[v], top[0]);
    most = LARGER(top[0], most);
    *(vec *)(best + i * LANES) = top[0]; /* of this piece, lane by lane */
  }
  float top = most[0];
  int undecided = 0, found = 0;
  for (int l = 0; l < LANES; l++) {
    top = most[l] > top ? most[l] : top;
    undecided |= extreme[l] > 0x7f800000;
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

/* Find the pivots (`find`), sample the maps there (`out`), or both, sample after sample while it is in the cache.
   sizes: samples, channels, h, w, n1, n2, and the origin; see `job` for the rest. 0 when done, otherwise NO_MEMORY or
   UNDECIDED, where a sample has NaN or its largest value at several positions. */
int shiftproof_sample(const float *in, float *out, const int64_t *sizes, const float *first, const float *second,
                      int64_t *pivots, int find, int together, int per_channel, int backwards, int threads) {
  job t = {.in = in, .out = out, .samples = sizes[0], .channels = sizes[1], .h = sizes[2], .w = sizes[3],
           .n1 = sizes[4], .n2 = sizes[5], .first = first, .second = second, .pivots = pivots,
           .origin = {sizes[6], sizes[7]}, .together = together, .per_channel = per_channel, .backwards = backwards};
  int failed = 0;
  if (find && out && t.samples < 2 * threads) { /* too few to share them out */
    failed = shiftproof_sample(in, NULL, sizes, NULL, NULL, pivots, 1, together, 0, 0, threads);
    if (failed) return failed;
    find = 0;
  }
  long parts = find ? t.samples : t.samples * units(&t), each = find ? units(&t) : 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) reduction(| : failed)
  for (int i = 0; i < threads; i++) {
    float *scratch = malloc(sizeof(float) * room(&t));
    long from = parts * i / threads, to = parts * (i + 1) / threads, step = find ? 1 : to - from;
    if (!scratch) failed = NO_MEMORY;
    for (; from < to && !failed; from += step) {
      if (find && search(&t, scratch, from))
        failed = UNDECIDED;
      else if (out)
        (together ? pixels : planes)(&t, scratch, from * each, (from + step) * each);
    }
    free(scratch);
  }
  return failed;
}
