/* GHS on the CPU in one pass: find the maximum of each sample; turn a sample, multiply both axes, in the cache.

   Plain C without Python or torch: pointers in, pointers out. All arithmetic happens on a map that has been turned
   into a scratch buffer, in an order that does not depend on the turn, so equal maps give equal bits.

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

/* rows x (16 * vectors) of C = A B, summed over k in order; only `columns` of them are stored; A[i][p] is at
   i * down + p * right */
INLINE void tile(const int rows, const int vectors, long k, long columns, const float *a, const long down,
                 const long right, const float *b, long ldb, float *c, long ldc) {
  vec sum[ROWS][2];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) sum[i][v] = (vec){0};
  for (long p = 0; p < k; p++) {
    vec row[2];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) row[v] = *(const vec *)(b + p * ldb + LANES * v);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) sum[i][v] += a[i * down + p * right] * row[v];
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      vec done = sum[i][v] + 0.0f; /* the sign of a zero leaves no trace */
      long left = columns - LANES * v;
      if (left >= LANES)
        *(vec *)(c + i * ldc + LANES * v) = done;
      else
        for (long l = 0; l < left; l++) c[i * ldc + LANES * v + l] = done[l];
    }
}

/* up to 32 columns of C; a packed A holds its rows eight by eight, those of one p together */
INLINE void column(const int vectors, const int packed, long m, long k, long columns, const float *a, long lda,
                   const float *b, long ldb, float *c, long ldc) {
#define AT(i) packed ? a + (i) / ROWS * ROWS * k + (i) % ROWS : a + (i) * lda, packed ? 1 : lda, packed ? ROWS : 1
  long i = 0;
  for (; i + 8 <= m; i += 8) tile(8, vectors, k, columns, AT(i), b, ldb, c + i * ldc, ldc);
  if (i + 4 <= m) tile(4, vectors, k, columns, AT(i), b, ldb, c + i * ldc, ldc), i += 4;
  if (i + 2 <= m) tile(2, vectors, k, columns, AT(i), b, ldb, c + i * ldc, ldc), i += 2;
  if (i < m) tile(1, vectors, k, columns, AT(i), b, ldb, c + i * ldc, ldc);
#undef AT
}

/* C (m x n) = A (m x k) B (k x n); the rows of B may be read up to the next multiple of 16 beyond n; lda 0: packed */
INLINE void multiply(long m, long k, long n, const float *a, const long lda, const float *b, long ldb, float *c,
                     long ldc) {
  long j = 0;
  for (; j + LANES < n; j += 2 * LANES) column(2, lda == 0, m, k, n - j, a, lda, b + j, ldb, c + j, ldc);
  if (j < n) column(1, lda == 0, m, k, n - j, a, lda, b + j, ldb, c + j, ldc);
}

INLINE long padded(long n) { return (n + LANES - 1) / LANES * LANES; }
INLINE long wrap(long i, long n) { return ((i % n) + n) % n; }

typedef struct {
  const float *in;
  float *out;
  long samples, channels, h, w, n1, n2; /* (h, w) -> (n1, n2) */
  const float *first;                   /* (n1, h), packed */
  const float *second;                  /* planes: (w, padded n2); pixels: (n2, w), packed */
  const int64_t *start;                 /* (samples or samples * channels, 2): where the turned map begins */
  int per_channel, backwards;           /* backwards: the input lies straight and the output is turned */
  long from, to;                        /* the share of one thread */
  int failed;
} job;

/* copy n floats in whole vectors: up to 15 more are read and written */
INLINE void copy(float *to, const float *from, long n) {
  for (long i = 0; i < n; i += LANES) *(vec *)(to + i) = *(const vec *)(from + i);
}

/* to[i][j] = from[r + i][c + j] around the edges of (h, w). `spare`: how many rows have something readable behind them.
   What is written too far is overwritten by the next row; `to` has room behind its last. */
INLINE void turn(float *to, long to_row, const float *from, long h, long w, long r, long c, long spare) {
  for (long i = 0; i < h; i++) {
    long k = r + i < h ? r + i : r + i - h;
    const float *row = from + k * w;
    float *line = to + i * to_row;
    if (k < spare) {
      copy(line, row + c, w - c);
      copy(line + (w - c), row, c);
    } else {
      memcpy(line, row + c, sizeof(float) * (w - c));
      memcpy(line + (w - c), row, sizeof(float) * c);
    }
  }
}

/* to[r + i][c + j] = from[i][j] around the edges */
INLINE void turn_back(float *to, const float *from, long from_row, long h, long w, long r, long c) {
  for (long i = 0; i < h; i++) {
    long k = r + i < h ? r + i : r + i - h;
    memcpy(to + k * w + c, from + i * from_row, sizeof(float) * (w - c));
    memcpy(to + k * w, from + i * from_row + (w - c), sizeof(float) * c);
  }
}

/* one plane (h, w) after the other */
CLONES void planes(job *t) {
  long wide = padded(t->w), narrow = padded(t->n2), all = t->samples * t->channels;
  float *map = calloc(t->h * wide + t->n1 * wide + t->n1 * narrow + 4 * wide, sizeof(float));
  if (!map) {
    t->failed = 1;
    return;
  }
  float *half = map + (t->h + 2) * wide, *small = half + (t->n1 + 2) * wide;
  for (long p = t->from; p < t->to; p++) {
    const int64_t *start = t->start + 2 * (t->per_channel ? p : p / t->channels);
    const float *in = t->in + p * t->h * t->w;
    float *out = t->out + p * t->n1 * t->n2;
    /* another plane behind it can be read without harm */
    long spare = p + 1 < all && t->h * t->w >= LANES ? t->h : 0;
    if (t->backwards) {
      turn(map, wide, in, t->h, t->w, 0, 0, spare);
      multiply(t->n1, t->h, t->w, t->first, 0, map, wide, half, wide);
      multiply(t->n1, t->w, t->n2, half, wide, t->second, narrow, small, narrow);
      turn_back(out, small, narrow, t->n1, t->n2, wrap(start[0], t->n1), wrap(start[1], t->n2));
    } else {
      turn(map, wide, in, t->h, t->w, wrap(start[0], t->h), wrap(start[1], t->w), spare);
      multiply(t->n1, t->h, t->w, t->first, 0, map, wide, half, wide);
      multiply(t->n1, t->w, t->n2, half, wide, t->second, narrow, out, t->n2);
    }
  }
  free(map);
}

/* a row of w pixels, `count` channels of each, beginning with pixel c */
INLINE void gather(float *to, const float *from, long w, long channels, long count, long wide, long c) {
  if (channels == wide) {
    memcpy(to, from + c * channels, sizeof(float) * (w - c) * channels);
    memcpy(to + (w - c) * channels, from, sizeof(float) * c * channels);
    return;
  }
  for (long j = 0; j < w; j++) {
    const float *pixel = from + (c + j < w ? c + j : c + j - w) * channels;
    if (count == wide)
      copy(to + j * wide, pixel, wide);
    else
      memcpy(to + j * wide, pixel, sizeof(float) * count);
  }
}

/* maps (h, w, channels) whose pixels lie together, up to 32 channels at a time. Large maps are read and written row by
   row: forwards the rows are multiplied first, backwards last. */
CLONES void pixels(job *t) {
  const long most = 2 * LANES;
  long between = t->backwards ? t->n1 * t->w : t->n2 * t->h, before = t->backwards ? t->h * t->w : t->w;
  float *row = calloc((before + between + t->n2) * most + LANES, sizeof(float));
  if (!row) {
    t->failed = 1;
    return;
  }
  float *half = row + before * most, *last = half + between * most;
  long blocks = (t->channels + most - 1) / most, channels = t->channels;
  for (long u = t->from; u < t->to; u++) {
    long b = u / blocks, c0 = u % blocks * most;
    long count = channels - c0 < most ? channels - c0 : most, wide = padded(count);
    const float *in = t->in + b * t->h * t->w * channels + c0;
    float *out = t->out + b * t->n1 * t->n2 * channels + c0;
    if (!t->backwards) {
      long r = wrap(t->start[2 * b], t->h), c = wrap(t->start[2 * b + 1], t->w);
      for (long i = 0; i < t->h; i++) { /* half: (n2, h, wide) */
        gather(row, in + (r + i < t->h ? r + i : r + i - t->h) * t->w * channels, t->w, channels, count, wide, c);
        multiply(t->n2, t->w, wide, t->second, 0, row, wide, half + i * wide, t->h * wide);
      }
      for (long n = 0; n < t->n2; n++)
        multiply(t->n1, t->h, count, t->first, 0, half + n * t->h * wide, wide, out + n * channels, t->n2 * channels);
    } else {
      long r = wrap(t->start[2 * b], t->n1), c = wrap(t->start[2 * b + 1], t->n2);
      for (long i = 0; i < t->h; i++)
        gather(row + i * t->w * wide, in + i * t->w * channels, t->w, channels, count, wide, 0);
      multiply(t->n1, t->h, t->w * wide, t->first, 0, row, t->w * wide, half, t->w * wide); /* (n1, w, wide) */
      for (long i = 0; i < t->n1; i++) {
        float *line = out + (r + i < t->n1 ? r + i : r + i - t->n1) * t->n2 * channels;
        multiply(t->n2, t->w, wide, t->second, 0, half + i * t->w * wide, wide, last, wide);
        for (long n = 0; n < t->n2; n++) {
          float *pixel = line + (c + n < t->n2 ? c + n : c + n - t->n2) * channels;
          if (count == wide)
            copy(pixel, last + n * wide, wide);
          else
            memcpy(pixel, last + n * wide, sizeof(float) * count);
        }
      }
    }
  }
  free(row);
}

typedef struct {
  const float *in;
  int64_t *index;
  int32_t *state;
  long channels, size, from, to;
  int together;
} search;

/* the position of each sample's largest value over all channels; state 0: one, 1: several positions, 2: NaN */
CLONES void maxima(search *t) {
  long n = t->size * t->channels;
  for (long b = t->from; b < t->to; b++) {
    const float *in = t->in + b * n;
    float best = in[0];
    int bad = 0;
    long i = 0;
    if (n >= LANES) {
      vec most = *(const vec *)in;
      mask ill = (mask){0};
      for (; i + LANES <= n; i += LANES) {
        vec next = *(const vec *)(in + i);
        mask more = next > most;
        most = (vec)(((mask)next & more) | ((mask)most & ~more));
        ill |= next != next;
      }
      for (int l = 0; l < LANES; l++) {
        best = most[l] > best ? most[l] : best;
        bad |= ill[l];
      }
    }
    for (; i < n; i++) {
      best = in[i] > best ? in[i] : best;
      bad |= in[i] != in[i];
    }
    /* where it stands: look closer at pieces that contain it */
    long where = -1;
    int several = 0;
    for (long from = 0; from < n && !bad; from += 32 * LANES) {
      long to = from + 32 * LANES < n ? from + 32 * LANES : n;
      int any = to - from < 32 * LANES;
      if (!any) {
        mask found = (mask){0};
        for (long k = from; k < to; k += LANES) found |= *(const vec *)(in + k) == best;
        for (int l = 0; l < LANES; l++) any |= found[l];
      }
      for (long k = from; any && k < to; k++)
        if (in[k] == best) {
          long place = t->together ? k / t->channels : k % t->size;
          several |= where >= 0 && where != place;
          where = where < 0 ? place : where;
        }
    }
    t->index[b] = where < 0 ? 0 : where;
    t->state[b] = bad ? 2 : several;
  }
}

/* 0 when done, 1 when there was no memory; see `job` for the arguments; together: pixels lie together */
int shiftproof_resample(const float *in, float *out, const int64_t *sizes, const float *first, const float *second,
                        const int64_t *start, int together, int per_channel, int backwards, int threads) {
  job model = {.in = in, .out = out, .first = first, .second = second, .start = start};
  model.samples = sizes[0], model.channels = sizes[1], model.h = sizes[2], model.w = sizes[3];
  model.n1 = sizes[4], model.n2 = sizes[5];
  model.per_channel = per_channel, model.backwards = backwards;
  long units = model.samples * (together ? (model.channels + 2 * LANES - 1) / (2 * LANES) : model.channels);
  int failed = 0;
#pragma omp parallel for num_threads(threads) if (threads > 1) reduction(| : failed)
  for (int i = 0; i < threads; i++) {
    job mine = model;
    mine.from = units * i / threads, mine.to = units * (i + 1) / threads;
    together ? pixels(&mine) : planes(&mine);
    failed |= mine.failed;
  }
  return failed;
}

void shiftproof_maxima(const float *in, int64_t samples, int64_t channels, int64_t size, int together, int64_t *index,
                      int32_t *state, int threads) {
  search model = {.in = in, .index = index, .state = state, .channels = channels, .size = size, .together = together};
#pragma omp parallel for num_threads(threads) if (threads > 1)
  for (int i = 0; i < threads; i++) {
    search mine = model;
    mine.from = samples * i / threads, mine.to = samples * (i + 1) / threads;
    maxima(&mine);
  }
}
