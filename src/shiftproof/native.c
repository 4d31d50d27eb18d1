/* GHS on the CPU: find the maximum of each sample, then multiply both axes, while the sample is in the cache.

   Plain C without Python or torch: pointers in, pointers out. A map is never turned in memory: it is read or written
   around its edges instead. Every output is one sum over the turned map, added up in the same order by the same
   operations wherever it lies, so equal maps give equal bits.

   The matrices are the same when read backwards, R[i][j] = R[N-1-i][M-1-j], because the functions they are made of are
   even or odd. So the sums and the differences of mirrored inputs are multiplied by matrices of half the size each:

     s = P e, d = Q o with e = (x + mirrored x) / 2, o = (x - mirrored x) / 2; output = s + d, mirrored output = s - d.

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
#define AT(pointer) (*(vec *)(pointer))

#define ROWS 4              /* of P and of Q, which lie beside each other */
#define BLOCK (2 * LANES)   /* channels that are worked on together */
#define PIECE (32 * LANES)  /* floats of which the search keeps the maxima */

enum { NO_MEMORY = 1, UNDECIDED = 2 };

typedef struct {
  const float *in;
  float *out;
  long samples, channels, h, w, n1, n2; /* (h, w) -> (n1, n2) */
  const float *first;                   /* (n1, h), P and Q, packed */
  const float *second;                  /* pixels: (n2, w), P and Q, packed; planes: (w, n2), backwards columns twice */
  int64_t *pivots;                      /* (samples or samples * channels, 2) */
  long origin[2];                       /* where they are moved to */
  int together, per_channel, backwards; /* pixels lie together; backwards: the output is turned, not the input */
} job;

INLINE long padded(long n) { return (n + LANES - 1) / LANES * LANES; }
INLINE long half(long n) { return (n + 1) / 2; }
INLINE long wrap(long i, long n) { return ((i % n) + n) % n; }
INLINE long around(long i, long n) { return i < n ? i : i - n; } /* for i < 2 n */

/* where the turned map of a sample begins */
INLINE void start(const job *t, long sample, long *r, long *c) {
  *r = wrap(t->pivots[2 * sample] - t->origin[0], t->backwards ? t->n1 : t->h);
  *c = wrap(t->pivots[2 * sample + 1] - t->origin[1], t->backwards ? t->n2 : t->w);
}

/* the pieces in which one sample is worked on: blocks of channels or planes */
INLINE long units(const job *t) { return t->together ? (t->channels + BLOCK - 1) / BLOCK : t->channels; }

/* how many floats one block of channels wants to work with, without a copy of it */
INLINE long room_of_block(const job *t) {
  long h2 = half(t->h), w2 = half(t->w);
  return (t->backwards ? 4 * h2 * w2 + 2 * t->n1 * w2 : 4 * w2 + 2 * t->n2 * h2) * BLOCK;
}

/* how many floats `planes`, `pixels` and `search` want to work with */
INLINE long room(const job *t) {
  long size = t->h * t->w, pieces = (size * t->channels / PIECE + 1) * LANES;
  long maps = t->together ? room_of_block(t) + size * BLOCK : (2 * half(t->h) + t->n1 + 1) * padded(t->w) + size;
  return maps > pieces ? maps : pieces;
}

/* the first `left` floats of a vector; the sign of a zero leaves no trace */
INLINE void store(float *to, vec value, long left) {
  value += 0.0f;
  if (left >= LANES) {
    AT(to) = value;
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

/* C (m x n) by halves: the rows of P `even` + Q `odd`, of which there are k, and mirrored P `even` - Q `odd`. `a` holds
   P and Q four rows by four, those of one column together. The rows of C begin at `from` and go around the edge. `even`
   and `odd` are read up to the next multiple of 16 beyond n. */
typedef struct {
  long m, k, n;
  const float *a, *even, *odd;
  long ld;
  float *c;
  long ldc, from;
} product;

INLINE void mirrored_tile(const int rows, const int vectors, const product *t, long i, long j) {
  vec s[ROWS][2], d[ROWS][2];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) s[r][v] = d[r][v] = (vec){0};
  const float *a = t->a + i / ROWS * 2 * ROWS * t->k + i % ROWS, *even = t->even + j, *odd = t->odd + j;
  for (long p = 0; p < t->k; p++, a += 2 * ROWS, even += t->ld, odd += t->ld) {
    vec e[2], o[2];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) e[v] = AT(even + LANES * v), o[v] = AT(odd + LANES * v);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) s[r][v] += a[r] * e[v], d[r][v] += a[ROWS + r] * o[v];
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    float *upper = t->c + around(t->from + i + r, t->m) * t->ldc + j;
    float *lower = t->c + around(t->from + t->m - 1 - i - r, t->m) * t->ldc + j;
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      long left = t->n - j - LANES * v;
      store(upper + LANES * v, s[r][v] + d[r][v], left);
      if (lower != upper) store(lower + LANES * v, s[r][v] - d[r][v], left);
    }
  }
}

INLINE void mirrored_columns(const int vectors, const product *t, long j) {
  long i = 0, rows = half(t->m);
  for (; i + 4 <= rows; i += 4) mirrored_tile(4, vectors, t, i, j);
  if (i + 2 <= rows) mirrored_tile(2, vectors, t, i, j), i += 2;
  if (i < rows) mirrored_tile(1, vectors, t, i, j);
}

INLINE void mirrored_product(const product t) {
  long j = 0;
  for (; j + LANES < t.n; j += 2 * LANES) mirrored_columns(2, &t, j);
  if (j < t.n) mirrored_columns(1, &t, j);
}

/* rows of C = A B along rows that go around the edge: A (m x k) begins with column a_from, C (m x n) with row c_from;
   rows of B are read up to the next multiple of 16 beyond n */
typedef struct {
  long m, k, n;
  const float *a;
  long lda, a_from;
  const float *b;
  long ldb;
  float *c;
  long c_from;
} rows_product;

INLINE void tile(const int rows, const int vectors, const rows_product *t, long i, long j) {
  vec sum[2 * ROWS][2];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) sum[r][v] = (vec){0};
  const float *b = t->b + j;
#pragma GCC unroll 1
  for (int part = 0; part < 2; part++) { /* up to the edge, and on from the other side */
    const float *a = t->a + i * t->lda + (part ? 0 : t->a_from);
    for (long p = part ? t->a_from : t->k - t->a_from; p > 0; p--, a++, b += t->ldb) {
      vec row[2];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) row[v] = AT(b + LANES * v);
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[r][v] += a[r * t->lda] * row[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      store(t->c + around(t->c_from + i + r, t->m) * t->n + j + LANES * v, sum[r][v], t->n - j - LANES * v);
}

INLINE void columns(const int vectors, const rows_product *t, long j) {
  long i = 0;
  for (; i + 8 <= t->m; i += 8) tile(8, vectors, t, i, j);
  if (i + 4 <= t->m) tile(4, vectors, t, i, j), i += 4;
  if (i + 2 <= t->m) tile(2, vectors, t, i, j), i += 2;
  if (i < t->m) tile(1, vectors, t, i, j);
}

INLINE void multiply_rows(const rows_product t) {
  long j = 0;
  for (; j + LANES < t.n; j += 2 * LANES) columns(2, &t, j);
  if (j < t.n) columns(1, &t, j);
}

/* some of the planes (h, w), one after the other */
CLONES void planes(const job *t, float *scratch, long from, long to) {
  long wide = padded(t->w), size = t->h * t->w, h2 = half(t->h);
  long ldb = padded(t->backwards ? 2 * t->n2 + LANES - 1 : t->n2);
  float *even = scratch, *odd = even + h2 * wide, *middle = odd + h2 * wide, *copy = middle + t->n1 * wide;
  for (long p = from; p < to; p++) {
    const float *in = t->in + p * size;
    float *out = t->out + p * t->n1 * t->n2;
    long r, c, turn;
    start(t, t->per_channel ? p : p / t->channels, &r, &c);
    turn = t->backwards ? 0 : r;
    if (wide > t->w && (t->samples * t->channels - p - 1) * size < LANES) /* nothing readable behind it */
      in = memcpy(copy, in, sizeof(float) * size);
    for (long i = 0; i < h2; i++) {
      const float *a = in + around(turn + i, t->h) * t->w, *b = in + around(turn + t->h - 1 - i, t->h) * t->w;
      const float weight = a == b ? 0.0f : 0.5f; /* the one in the middle has no partner */
      for (long j = 0; j < wide; j += LANES) {
        vec x = 0.5f * AT(a + j), y = weight * AT(b + j);
        AT(even + i * wide + j) = x + y;
        AT(odd + i * wide + j) = x - y;
      }
    }
    mirrored_product((product){.m = t->n1, .k = h2, .n = wide, .a = t->first, .even = even, .odd = odd, .ld = wide,
                               .c = middle, .ldc = wide});
    if (t->backwards) /* columns of the output are turned by reading the matrix from further on */
      multiply_rows((rows_product){.m = t->n1, .k = t->w, .n = t->n2, .a = middle, .lda = wide,
                                   .b = t->second + t->n2 - c, .ldb = ldb, .c = out, .c_from = r});
    else
      multiply_rows((rows_product){.m = t->n1, .k = t->w, .n = t->n2, .a = middle, .lda = wide, .a_from = c,
                                   .b = t->second, .ldb = ldb, .c = out});
  }
}

/* fold a row of w pixels and its mirrored row onto half their length, both beginning with pixel c, into four parts:
   even in rows and columns, odd in columns, odd in rows, odd in both */
INLINE void fold(float *to, long each, const float *row, const float *partner, long w, long c, long step, long wide) {
  const float lower = row == partner ? 0.0f : 0.25f; /* what lies in the middle has no partner */
  for (long j = 0; j < half(w); j++) {
    long at = around(c + j, w) * step, mirrored = around(c + w - 1 - j, w) * step;
    const float other = at == mirrored ? 0.0f : 1.0f;
    for (long l = j * wide; l < (j + 1) * wide; l += LANES, at += LANES, mirrored += LANES) {
      /* the next row and its partner, which the processor cannot guess, will be wanted soon */
      __builtin_prefetch(row + w * step + at), __builtin_prefetch(row + w * step + mirrored);
      __builtin_prefetch(partner - w * step + at), __builtin_prefetch(partner - w * step + mirrored);
      vec x = 0.25f * AT(row + at), y = lower * AT(partner + at);
      vec z = other * (0.25f * AT(row + mirrored)), u = other * (lower * AT(partner + mirrored));
      AT(to + l) = (x + y) + (z + u);
      AT(to + l + each) = (x + y) - (z + u);
      AT(to + l + 2 * each) = (x - y) + (z - u);
      AT(to + l + 3 * each) = (x - y) - (z - u);
    }
  }
}

/* a block of channels, forwards: rows first, so that a large map is read row by row */
INLINE void shrink(const job *t, float *scratch, const float *in, long step, float *out, long count, long r, long c) {
  long h2 = half(t->h), w2 = half(t->w), wide = padded(count), each = w2 * wide, column = h2 * wide;
  float *even = scratch + 4 * each, *odd = even + t->n2 * column; /* (n2, h2, wide) */
  for (long i = 0; i < h2; i++) {
    const float *row = in + around(r + i, t->h) * t->w * step;
    fold(scratch, each, row, in + around(r + t->h - 1 - i, t->h) * t->w * step, t->w, c, step, wide);
    for (int k = 0; k < 2; k++)
      mirrored_product((product){.m = t->n2, .k = w2, .n = wide, .a = t->second, .even = scratch + 2 * k * each,
                                 .odd = scratch + (2 * k + 1) * each, .ld = wide, .c = (k ? odd : even) + i * wide,
                                 .ldc = column});
  }
  for (long n = 0; n < t->n2; n++)
    mirrored_product((product){.m = t->n1, .k = h2, .n = count, .a = t->first, .even = even + n * column,
                               .odd = odd + n * column, .ld = wide, .c = out + n * t->channels,
                               .ldc = t->n2 * t->channels});
}

/* a block of channels, backwards: rows last, so that a large map is written row by row */
INLINE void spread(const job *t, float *scratch, const float *in, long step, float *out, long count, long r, long c) {
  long h2 = half(t->h), w2 = half(t->w), wide = padded(count), line = w2 * wide, each = h2 * line;
  float *even = scratch + 4 * each, *odd = even + t->n1 * line; /* (n1, w2, wide) */
  for (long i = 0; i < h2; i++)
    fold(scratch + i * line, each, in + i * t->w * step, in + (t->h - 1 - i) * t->w * step, t->w, 0, step, wide);
  for (int k = 0; k < 2; k++)
    mirrored_product((product){.m = t->n1, .k = h2, .n = line, .a = t->first, .even = scratch + k * each,
                               .odd = scratch + (2 + k) * each, .ld = line, .c = k ? odd : even, .ldc = line});
  for (long i = 0; i < t->n1; i++)
    mirrored_product((product){.m = t->n2, .k = w2, .n = count, .a = t->second, .even = even + i * line,
                               .odd = odd + i * line, .ld = wide, .c = out + around(r + i, t->n1) * t->n2 * t->channels,
                               .ldc = t->channels, .from = c});
}

/* some of the blocks of up to 32 channels of maps (h, w, channels), whose pixels lie together */
CLONES void pixels(const job *t, float *scratch, long from, long to) {
  const long blocks = units(t), size = t->h * t->w;
  for (long unit = from; unit < to; unit++) {
    long b = unit / blocks, c0 = unit % blocks * BLOCK, step = t->channels, r, c;
    long count = t->channels - c0 < BLOCK ? t->channels - c0 : BLOCK, wide = padded(count);
    const float *in = t->in + b * size * t->channels + c0;
    float *out = t->out + b * t->n1 * t->n2 * t->channels + c0, *copy = scratch + room_of_block(t);
    start(t, b, &r, &c);
    if (wide > count && (t->samples - b - 1) * size * t->channels < LANES) { /* nothing readable behind it */
      memset(copy, 0, sizeof(float) * size * wide);
      for (long i = 0; i < size; i++) memcpy(copy + i * wide, in + i * step, sizeof(float) * count);
      in = copy, step = wide;
    }
    if (t->backwards) /* called by name, so that they are compiled in here, for each kind of processor */
      spread(t, scratch, in, step, out, count, r, c);
    else
      shrink(t, scratch, in, step, out, count, r, c);
  }
}

/* the larger of two, lane by lane; gcc has instructions for a choice, but takes a comparison kept for later apart */
#define LARGER(a, b) ((__typeof__(b))(((mask)(a) & ((a) > (b))) | ((mask)(b) & ~((a) > (b)))))

/* the position of the largest value over all channels of a sample; 1 where it has NaN or that value at several places */
CLONES int search(const job *t, float *best, long b) {
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
