/* A site in one call: the cosine transform of every map, its moments, the move, and the way back.
 *
 *     z = D_h x D_wᵀ,    z' = gain · z + offset,    x' = D_hᵀ z' D_w
 *
 * Eight maps that follow each other in memory are handled at once, one in each lane of a vector, so that maps of every
 * size use whole vectors. Groups of eight maps take turns through the channels: after a period of c / gcd(c, 8) groups a
 * lane has the same channel again. So moments are taken lane by lane, and merged where several lanes share a channel.
 *
 * What a thread does depends on the shape alone, so results do not depend on the number of threads. The threads are
 * PyTorch's own: those of its OpenMP runtime.
 *
 * Arrays are float32, maps (b c h w), contiguous or with channels last; shiftmatch/core/kernels.py is the only caller. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
#define LANES 8  /* floats in a vector, and maps in a group */
#define BASE 8   /* entries whose transform is a product with its matrix */
#define BLOCK 8  /* maps of a lane whose moments are taken in single precision; blocks are added in double precision */
#define TURNS 32 /* groups of a lane that are worth a thread of their own */
#define ITEMS 16 /* items that are enough to keep threads busy */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int indices __attribute__((vector_size(4 * LANES)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (indices){__VA_ARGS__})
#endif

extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned) __attribute__((weak));

/* An axis of n entries, and what its transform needs: see `frequencies`. */
typedef struct {
    int n, base;
    const float *even, *odd, *fourth, *even_t, *odd_t, *fourth_t; /* matrices at the base, and their transposes */
    const float *rotations;                                       /* cosines and sines for n / 2, n / 4, ... entries */
} axis;

typedef struct job {
    void (*work)(struct job *, int item, float *scratch);
    int items, next, failed;
    int c, f;                           /* channels, coefficients of a map */
    long step;                          /* from one entry of a map to the next: 1, or c where channels are last */
    long maps, groups, period;          /* groups of eight maps; after a period lanes have the same channels again */
    long chunk, chunks;                 /* an item is a place in the period and a chunk of its turns */
    axis rows, columns;
    const float *x, *gain, *offset;
    const float *scale, *shift; /* of channels, before anything else: what a BatchNorm does; or NULL */
    const float *to_mean, *to_raised, *to_floor, *to_level, *to_variance; /* where features are moved to */
    float *z, *out, *tail;        /* tail: the coefficients of the last group, if it is not whole */
    float *means, *squares, *own; /* moments of lanes, (chunks, period · LANES, f) each; gain and offset of channels */
    double *mean, *variance;
    double constant, of_moments, of_shape, of_means; /* shrinkages, and what counts as constant */
} job;

static axis axis_of(int n, const float **tables) {
    axis a = {n, n};
    while (a.base > BASE && a.base % 2 == 0) a.base /= 2;
    const int e = (a.base + 1) / 2, o = a.base / 2, all = a.base * a.base;
    a.even = *tables, a.odd = a.even + e * e, a.fourth = a.odd + o * o, a.even_t = a.fourth + all;
    a.odd_t = a.even_t + e * e, a.fourth_t = a.odd_t + o * o, a.rotations = a.fourth_t + all;
    *tables = a.rotations + (n > a.base ? 2 * n - 4 * a.base : 0);
    return a;
}

INLINE long least(long a, long b) { return a < b ? a : b; }
INLINE long atleast(long a, long b) { return a > b ? a : b; }
INLINE long divided(long a, long b) { return (a + b - 1) / b; }

INLINE void transpose(vec *m) {
    vec t[8], u[8];
    UNROLL for (int i = 0; i < 8; i += 2) {
        t[i] = SHUFFLE(m[i], m[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = SHUFFLE(m[i], m[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    UNROLL for (int i = 0; i < 8; i += 4) UNROLL for (int k = 0; k < 2; k++) {
        u[i + 2 * k] = SHUFFLE(t[i + k], t[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 2 * k + 1] = SHUFFLE(t[i + k], t[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        m[i] = SHUFFLE(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        m[i + 4] = SHUFFLE(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Whether the maps are neighbouring channels of one image whose entries lie `step` floats apart. */
INLINE int neighbours(const float *const *maps, long step) {
    return step > 1 && maps[0] && maps[LANES - 1] == maps[0] + LANES - 1;
}

/* Maps side by side in lanes; those that are not there are zero. */
static void load(const float *const *maps, int f, long step, float *restrict s) {
    int k = 0;
    if (neighbours(maps, step))
        for (; k < f; k++) *(vec *)(s + k * LANES) = *(const vec *)(maps[0] + k * step);
    for (; step == 1 && k + LANES <= f; k += LANES) {
        vec m[LANES];
        UNROLL for (int l = 0; l < LANES; l++) m[l] = maps[l] ? *(const vec *)(maps[l] + k) : (vec){0};
        transpose(m);
        UNROLL for (int l = 0; l < LANES; l++) *(vec *)(s + (k + l) * LANES) = m[l];
    }
    for (; k < f; k++)
        for (int l = 0; l < LANES; l++) s[k * LANES + l] = maps[l] ? maps[l][k * step] : 0;
}

/* The other way. */
static void unload(const float *restrict s, int f, long step, float *const *maps) {
    int k = 0;
    if (neighbours((const float *const *)maps, step))
        for (; k < f; k++) *(vec *)(maps[0] + k * step) = *(const vec *)(s + k * LANES);
    for (; step == 1 && k + LANES <= f; k += LANES) {
        vec m[LANES];
        UNROLL for (int l = 0; l < LANES; l++) m[l] = *(const vec *)(s + (k + l) * LANES);
        transpose(m);
        UNROLL for (int l = 0; l < LANES; l++) if (maps[l]) *(vec *)(maps[l] + k) = m[l];
    }
    for (; k < f; k++)
        for (int l = 0; l < LANES; l++) if (maps[l]) maps[l][k * step] = s[k * LANES + l];
}

/* The maps of a group in an array of all, and what its lanes have in an array by channel. */
INLINE void maps_of(const job *j, const float *all, long group, float **maps) {
    for (long l = 0, m = group * LANES; l < LANES; l++, m++) {
        const long at = j->step == 1 ? m * j->f : m / j->c * j->c * j->f + m % j->c;
        maps[l] = m < j->maps ? (float *)all + at : NULL;
    }
}
INLINE void channels_of(const job *j, const float *all, long group, const float **maps) {
    for (long l = 0; l < LANES; l++) maps[l] = all + (group * LANES + l) % j->c * j->f;
}

/* Two vectors are transformed at once: a factor is loaded once for both. */
typedef struct {
    vec one, other;
} pair;

INLINE pair plus(pair a, pair b) { return (pair){a.one + b.one, a.other + b.other}; }
INLINE pair minus(pair a, pair b) { return (pair){a.one - b.one, a.other - b.other}; }
INLINE pair times(float k, pair a) { return (pair){k * a.one, k * a.other}; }

/* R sums of k products. */
INLINE void sums(const int R, const float *a, int k, const pair *in, long from, pair *out, long to) {
    pair sum[4];
    UNROLL for (int r = 0; r < R; r++) sum[r] = (pair){{0}, {0}};
    UNROLL for (int p = 0; p < k; p++)
        UNROLL for (int r = 0; r < R; r++) sum[r] = plus(sum[r], times(a[r * k + p], in[p * from]));
    UNROLL for (int r = 0; r < R; r++) out[r * to] = sum[r];
}

/* A k × k matrix times entries that are `from` apart, to entries that are `to` apart. */
INLINE void product(const float *a, int k, const pair *in, long from, pair *out, long to) {
    if (k == 4) { /* the usual one, unrolled */
        sums(4, a, 4, in, from, out, to);
        return;
    }
    int r = 0;
    for (; r + 4 <= k; r += 4) sums(4, a + r * k, k, in, from, out + r * to, to);
    for (; r + 2 <= k; r += 2) sums(2, a + r * k, k, in, from, out + r * to, to);
    for (; r < k; r++) sums(1, a + r * k, k, in, from, out + r * to, to);
}

/* Sums of mirrored entries take the first half, and differences the second, the first one last. */
INLINE void fold(int n, pair *x) {
    for (int i = 0, k = n - 1; i < k; i++, k--) {
        const pair one = x[i], other = x[k];
        x[i] = plus(one, other), x[k] = minus(one, other);
    }
}

/* Mirrored entries rotated by the angles θ_i = π (2i + 1) / 4m, or back; every second one of the second half changes its
 * sign. Four entries at a time take each other's places. */
INLINE void rotate(int m, const float *rotations, pair *x, const int back) {
    const int half = m / 2;
    for (int i = 0, k = half - 1; i <= k; i++, k--) {
        const float *t = rotations + 4 * i, *u = rotations + 4 * k;
        const pair a = x[i], b = x[k], c = x[half + i], d = x[half + k];
        if (back) {
            x[i] = minus(times(t[1], a), times(t[2], c)), x[half + k] = plus(times(t[0], a), times(t[3], c));
            x[k] = minus(times(u[1], b), times(u[2], d)), x[half + i] = plus(times(u[0], b), times(u[3], d));
        } else {
            x[i] = plus(times(t[0], d), times(t[1], a)), x[half + i] = minus(times(t[3], d), times(t[2], a));
            x[k] = plus(times(u[0], c), times(u[1], b)), x[half + k] = minus(times(u[3], c), times(u[2], b));
        }
    }
}

/* Sums and differences of neighbours, but for the first and the last, which have √2; or their transpose. */
INLINE void butterflies(int m, pair *x, long step, const int back) {
    const float root = 1.41421356f;
    x[0] = times(root, x[0]), x[(m - 1) * step] = times(root, x[(m - 1) * step]);
    for (int i = 1; i < m - 1; i += 2) {
        const pair one = x[i * step], other = x[(i + 1) * step];
        x[i * step] = back ? minus(one, other) : plus(one, other);
        x[(i + 1) * step] = back ? plus(one, other) : minus(other, one);
    }
}

/* The cosine transform (DCT-II) of n entries x, folded before and overwritten, to `out`, in less than n² multiplications.
 *
 * Even frequencies are the DCT-II of the sums of mirrored entries, odd ones the DCT-IV of their differences. That is, for
 * m entries, a DCT-II of each half after mirrored entries were rotated, and then sums and differences. All of these steps
 * are orthogonal, so rounding errors do not grow. They are repeated while the number of entries is even and over BASE.
 * There stand products with matrices, in which are the factors 1/√2 of all steps. */
static void frequencies(const axis *a, int n, pair *x, pair *out, long step);

static void frequencies_4(const axis *a, int m, pair *x, pair *out, long step) {
    const int half = m / 2;
    if (m == a->base) {
        product(a->fourth, m, x, 1, out, step);
        return;
    }
    rotate(m, a->rotations + 2 * (a->n - 2 * m), x, 0);
    fold(half, x), fold(half, x + half);
    frequencies(a, half, x, out, 2 * step);
    frequencies(a, half, x + half, out + (m - 1) * step, -2 * step);
    butterflies(m, out, step, 0);
}

static void frequencies(const axis *a, int n, pair *x, pair *out, long step) {
    if (n == a->base) {
        product(a->even, (n + 1) / 2, x, 1, out, 2 * step);
        product(a->odd, n / 2, x + (n + 1) / 2, 1, out + step, 2 * step);
    } else {
        fold(n / 2, x);
        frequencies(a, n / 2, x, out, 2 * step);
        frequencies_4(a, n / 2, x + n / 2, out + step, 2 * step);
    }
}

/* The way back: the same steps, transposed, in reverse. Frequencies are overwritten; entries are still to be folded. */
static void entries(const axis *a, int n, pair *in, long step, pair *x);

static void entries_4(const axis *a, int m, pair *in, long step, pair *x) {
    const int half = m / 2;
    if (m == a->base) {
        product(a->fourth_t, m, in, step, x, 1);
        return;
    }
    butterflies(m, in, step, 1);
    entries(a, half, in, 2 * step, x);
    entries(a, half, in + (m - 1) * step, -2 * step, x + half);
    fold(half, x), fold(half, x + half);
    rotate(m, a->rotations + 2 * (a->n - 2 * m), x, 1);
}

static void entries(const axis *a, int n, pair *in, long step, pair *x) {
    if (n == a->base) {
        product(a->even_t, (n + 1) / 2, in, 2 * step, x, 1);
        product(a->odd_t, n / 2, in + step, 2 * step, x + (n + 1) / 2, 1);
    } else {
        entries(a, n / 2, in, 2 * step, x);
        entries_4(a, n / 2, in + step, 2 * step, x + n / 2);
        fold(n / 2, x);
    }
}

/* Two lines whose entries lie `step` floats apart, the second `gap` floats from the first. */
INLINE pair get(const float *p, long gap) { return (pair){*(const vec *)p, *(const vec *)(p + gap)}; }
INLINE void put(float *p, long gap, pair x) { *(vec *)p = x.one, *(vec *)(p + gap) = x.other; }

/* All lines of one axis: entries of a line lie `along` floats apart, and lines `across`; out may be in. Of an odd number
 * of lines the last is its own partner. Entries are folded on the way in, or on the way out. */
INLINE void transform(const axis *a, const float *in, float *out, int lines, long along, long across, float *scratch,
                      const int back) {
    pair *x = (pair *)scratch, *y = x + a->n;
    const int n = a->n, half = n / 2;
    for (int line = 0; line < lines; line += 2, in += 2 * across, out += 2 * across) {
        const long gap = line + 1 < lines ? across : 0;
        if (back) {
            for (int i = 0; i < n; i++) y[i] = get(in + i * along, gap);
            entries(a, n, y, 1, x);
            for (int i = 0; i < half; i++) {
                put(out + i * along, gap, plus(x[i], x[n - 1 - i]));
                put(out + (n - 1 - i) * along, gap, minus(x[i], x[n - 1 - i]));
            }
            if (n % 2) put(out + half * along, gap, x[half]);
        } else {
            for (int i = 0; i < half; i++) {
                const pair one = get(in + i * along, gap), other = get(in + (n - 1 - i) * along, gap);
                x[i] = plus(one, other), x[n - 1 - i] = minus(one, other);
            }
            if (n % 2) x[half] = get(in + half * along, gap);
            frequencies(a, n, x, y, 1);
            for (int i = 0; i < n; i++) put(out + i * along, gap, y[i]);
        }
    }
}

/* Both axes of a group of maps, by way of s. */
static void to_coefficients(const job *j, float *s, float *z, float *scratch) {
    const long h = j->rows.n, w = j->columns.n, line = w * LANES;
    transform(&j->rows, s, s, w, line, LANES, scratch, 0);
    transform(&j->columns, s, z, h, LANES, line, scratch, 0);
}

static void to_maps(const job *j, float *s, float *scratch) {
    const long h = j->rows.n, w = j->columns.n, line = w * LANES;
    transform(&j->columns, s, s, h, LANES, line, scratch, 1);
    transform(&j->rows, s, s, w, line, LANES, scratch, 1);
}

/* Add the moments of n groups to those of the groups before them (Chan et al.), lane by lane. */
INLINE void add_moments(const float *const *z, int n, int before, long size, double *restrict mean,
                        double *restrict squares) {
    const double share = n / (double)(before + n), between = share * before;
    const float each = 1.0f / n;
    for (long k = 0; k < size; k += LANES) {
        vec centre = (vec){0}, square = (vec){0};
        UNROLL for (int i = 0; i < n; i++) centre += *(const vec *)(z[i] + k);
        centre *= each;
        UNROLL for (int i = 0; i < n; i++) {
            const vec deviation = *(const vec *)(z[i] + k) - centre;
            square += deviation * deviation;
        }
        for (int l = 0; l < LANES; l++) {
            const double delta = centre[l] - mean[k + l];
            mean[k + l] += share * delta;
            squares[k + l] += square[l] + between * delta * delta;
        }
    }
}

/* Coefficients are kept for the way back, unless channels are last: then the results of others have their place. */
INLINE int keeps_coefficients(const job *j) { return j->means && j->out && j->step == 1; }

/* Those of a group lie in the memory of its result, if that is large enough. */
INLINE float *coefficients_of(const job *j, long group) {
    return (group + 1) * LANES <= j->maps ? j->out + group * LANES * j->f : j->tail;
}

/* How many turns of an item begin in this chunk, of `all` that a lane or a group has. */
INLINE long turns_in(const job *j, long chunk, long all) { return atleast(least(all - chunk * j->chunk, j->chunk), 0); }

/* What a thread has: two rows of doubles and a block, or gain and offset; then s, and folded entries. */
INLINE long scratch_size(const job *j) {
    return (5 + BLOCK) * (long)j->f * LANES + 4 * atleast(j->rows.n, j->columns.n) * LANES;
}

/* Transform some groups, keep their coefficients if there is a result to come, and take the moments of each lane. */
static void measure_item(job *j, int item, float *scratch) {
    const long size = (long)j->f * LANES, at = item % j->period, chunk = item / j->period;
    const long turns = turns_in(j, chunk, divided(j->groups - at, j->period));
    double *mean = (double *)scratch, *squares = mean + size;
    float *own = (float *)(squares + size), *s = own + BLOCK * size, *folded = s + size;
    memset(mean, 0, 2 * size * sizeof *mean);
    for (long done = 0, n; done < turns; done += n) {
        float *z[BLOCK], *maps[LANES];
        long group = (chunk * j->chunk + done) * j->period + at;
        n = least(turns - done, BLOCK);
        for (int i = 0; i < n; i++, group += j->period) {
            const int whole = (group + 1) * LANES <= j->maps;
            if (!whole && i) { /* what is not whole is a block of its own */
                n = i;
                break;
            }
            z[i] = keeps_coefficients(j) ? coefficients_of(j, group) : own + i * size;
            maps_of(j, j->x, group, maps);
            load((const float *const *)maps, j->f, j->step, s);
            to_coefficients(j, s, z[i], folded);
            if (!whole) { /* maps that are not there change no moments */
                for (long k = 0; k < size; k++)
                    if (k % LANES >= j->maps % LANES) z[i][k] = mean[k];
                n = 1;
            }
        }
        if (n == BLOCK)
            add_moments((const float *const *)z, BLOCK, done, size, mean, squares);
        else
            add_moments((const float *const *)z, n, done, size, mean, squares);
    }
    float *rows[LANES];
    for (int kind = 0; kind < 2; kind++) {
        float *to = (kind ? j->squares : j->means) + (long)item * size;
        for (long k = 0; k < size; k++) s[k] = (kind ? squares : mean)[k];
        for (int l = 0; l < LANES; l++) rows[l] = to + l * j->f;
        unload(s, j->f, 1, rows);
    }
}

INLINE double mix(double variance, double to_variance, double delta, double weight) {
    return (1 - weight) * variance + weight * to_variance + weight * (1 - weight) * delta * delta;
}

/* Spectrum.gain_and_offset for channel c, whose moments are given; whether these are finite. */
INLINE int gain_and_offset(const job *j, int c, const float *restrict mean, const float *restrict variance,
                           float *restrict gain, float *restrict offset) {
    const int f = j->f;
    const float *restrict to_mean = j->to_mean + (long)c * f, *restrict raised = j->to_raised + (long)c * f;
    const double unit = sqrt(f), level = mean[0] / unit, to_level = j->to_level[c], to = j->to_variance[c];
    double own = variance[0];
    for (int k = 1; k < f; k++) own += variance[k] + (double)mean[k] * mean[k];
    if (!isfinite(own)) return 0;
    own /= f;
    if (own <= j->constant * (level * level + to) || to <= j->constant * (to_level * to_level + own)) {
        for (int k = 0; k < f; k++) gain[k] = 1, offset[k] = 0;
        return 1;
    }
    const double a = sqrt(to / mix(own, to, level - to_level, j->of_moments));
    const double b = to_level - a * (to_level + (1 - j->of_moments) * (level - to_level));
    const float scale = a, floor = j->to_floor[c] + FLT_MIN, shape = j->of_shape, left = 1 - j->of_means;
    for (int k = 0; k < f; k++) {
        const float away = (k ? 0 : (float)(b * unit)) - to_mean[k], delta = away + scale * mean[k];
        const float mixed = (1 - shape) * (scale * scale * variance[k] + floor) + shape * raised[k]
                          + shape * (1 - shape) * delta * delta;
        const float ratio = sqrtf(raised[k] / mixed);
        gain[k] = ratio * scale;
        offset[k] = to_mean[k] + ratio * (away - left * delta);
    }
    return 1;
}

/* Moments of scale · x + shift from those of x; then the gain and offset of x from those of scale · x + shift. */
INLINE void moments_after(const job *j, int c, float *restrict mean, float *restrict variance) {
    const float scale = j->scale[c];
    for (int k = 0; k < j->f; k++) mean[k] *= scale, variance[k] *= scale * scale;
    mean[0] += j->shift[c] * sqrtf(j->f);
}
INLINE void map_before(const job *j, int c, float *restrict gain, float *restrict offset) {
    offset[0] += gain[0] * j->shift[c] * sqrtf(j->f);
    for (int k = 0; k < j->f; k++) gain[k] *= j->scale[c];
}

/* Merge the moments of the lanes of a channel; then write them down, or the gain and offset that they ask for. */
static void solve_channel(job *j, int c, float *scratch) {
    const long f = j->f, lanes = j->period * LANES;
    double *mean = j->mean ? j->mean + c * f : (double *)scratch, *variance = j->mean ? j->variance + c * f : mean + f;
    float *centre = (float *)((double *)scratch + 2 * f), *spread = centre + f;
    double before = 0;
    memset(mean, 0, f * sizeof *mean), memset(variance, 0, f * sizeof *variance);
    for (long chunk = 0; chunk < j->chunks; chunk++)
        for (long lane = c; lane < lanes; lane += j->c) {
            const double n = turns_in(j, chunk, divided(j->maps - lane, lanes)), share = n / (before + n);
            const long row = (chunk * lanes + lane) * f;
            const float *means = j->means + row, *squares = j->squares + row;
            if (n == 0) continue;
            for (long k = 0; k < f; k++) {
                const double delta = means[k] - mean[k];
                mean[k] += share * delta;
                variance[k] += squares[k] + share * before * delta * delta;
            }
            before += n;
        }
    for (long k = 0; k < f; k++) variance[k] /= before;
    if (j->mean) return;
    for (long k = 0; k < f; k++) centre[k] = mean[k], spread[k] = variance[k];
    float *gain = j->own + c * f, *offset = gain + j->c * f;
    if (j->scale) moments_after(j, c, centre, spread);
    if (!gain_and_offset(j, c, centre, spread, gain, offset)) j->failed = 1;
    if (j->scale) map_before(j, c, gain, offset);
}

/* Apply gain and offset to groups whose coefficients are known, or are still to be found. */
static void move_item(job *j, int item, float *scratch) {
    const long size = (long)j->f * LANES, at = item % j->period, chunk = item / j->period;
    const long turns = turns_in(j, chunk, divided(j->groups - at, j->period));
    float *gain = scratch, *offset = gain + size, *s = offset + size, *folded = s + size, *maps[LANES];
    channels_of(j, j->gain, at, (const float **)maps), load((const float *const *)maps, j->f, 1, gain);
    channels_of(j, j->offset, at, (const float **)maps), load((const float *const *)maps, j->f, 1, offset);
    for (long turn = 0; turn < turns; turn++) {
        const long group = (chunk * j->chunk + turn) * j->period + at;
        const float *z = s;
        if (keeps_coefficients(j))
            z = coefficients_of(j, group);
        else {
            maps_of(j, j->x, group, maps), load((const float *const *)maps, j->f, j->step, s);
            to_coefficients(j, s, s, folded);
            if (j->z) maps_of(j, j->z, group, maps), unload(s, j->f, j->step, maps);
        }
        for (long k = 0; k < size; k += LANES)
            *(vec *)(s + k) = *(vec *)(gain + k) * *(const vec *)(z + k) + *(vec *)(offset + k);
        to_maps(j, s, folded);
        maps_of(j, j->out, group, maps), unload(s, j->f, j->step, maps);
    }
}

static void work(void *shared) {
    job *j = shared;
    float *scratch = malloc(scratch_size(j) * sizeof *scratch);
    if (!scratch) j->failed = 2;
    for (int item; !j->failed && (item = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->items;)
        j->work(j, item, scratch);
    free(scratch);
}

/* Share the items between threads. */
static void share(job *j, void (*function)(job *, int, float *), long items, int threads) {
    j->work = function, j->items = items, j->next = 0;
    if (threads > 1 && items > 1 && GOMP_parallel)
        GOMP_parallel(work, j, threads, 0);
    else
        work(j);
}

/* Measure, solve and move, as far as asked for, without the interpreter's lock; whether all is finite. */
static PyObject *run(job *j, int b, int h, int w, const float *matrices, int threads, int measures, int moves) {
    long divisor = LANES;
    while (j->c % divisor) divisor /= 2; /* the greatest common one */
    j->rows = axis_of(h, &matrices), j->columns = axis_of(w, &matrices), j->f = h * w;
    j->maps = (long)b * j->c, j->groups = divided(j->maps, LANES), j->period = j->c / divisor;
    const long turns = divided(j->groups, j->period);
    j->chunk = divided(turns, least(divided(ITEMS, j->period), divided(turns, TURNS)));
    j->chunks = divided(turns, j->chunk);
    const long items = j->period * j->chunks, size = (long)j->f * LANES;
    float *kept = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (measures) {
        kept = malloc((2 * items * size + 2L * j->c * j->f + size) * sizeof *kept);
        if (!kept) j->failed = 2;
        j->means = kept, j->squares = kept + items * size, j->own = kept + 2 * items * size;
        j->tail = j->own + 2L * j->c * j->f;
        if (!j->failed) share(j, measure_item, items, threads);
        if (!j->failed) share(j, solve_channel, j->c, threads);
        if (moves) j->gain = j->own, j->offset = j->own + (long)j->c * j->f;
    }
    if (moves && !j->failed) share(j, move_item, items, threads);
    free(kept);
    Py_END_ALLOW_THREADS
    return j->failed == 2 ? PyErr_NoMemory() : PyBool_FromLong(!j->failed);
}

#define POINTER(x) ((void *)(uintptr_t)(x))
typedef unsigned long long address;

static PyObject *match(PyObject *self, PyObject *args) {
    job j = {0};
    int b, h, w, threads;
    address x, out, m, mean, raised, floor, level, variance, scale, shift;
    if (!PyArg_ParseTuple(args, "KKiiiilKi(KKKKK)(dddd)(KK)", &x, &out, &b, &j.c, &h, &w, &j.step, &m, &threads, &mean, &raised,
                          &floor, &level, &variance, &j.constant, &j.of_moments, &j.of_shape, &j.of_means, &scale,
                          &shift))
        return NULL;
    j.x = POINTER(x), j.out = POINTER(out), j.to_mean = POINTER(mean), j.to_raised = POINTER(raised);
    j.to_floor = POINTER(floor), j.to_level = POINTER(level), j.to_variance = POINTER(variance);
    j.scale = POINTER(scale), j.shift = POINTER(shift);
    return run(&j, b, h, w, POINTER(m), threads, 1, 1);
}

static PyObject *measure(PyObject *self, PyObject *args) {
    job j = {0};
    int b, h, w, threads;
    address x, m, mean, variance;
    if (!PyArg_ParseTuple(args, "KiiiilKiKK", &x, &b, &j.c, &h, &w, &j.step, &m, &threads, &mean, &variance)) return NULL;
    j.x = POINTER(x), j.mean = POINTER(mean), j.variance = POINTER(variance);
    return run(&j, b, h, w, POINTER(m), threads, 1, 0);
}

static PyObject *move(PyObject *self, PyObject *args) {
    job j = {0};
    int b, h, w, threads;
    address x, z, out, m, gain, offset;
    if (!PyArg_ParseTuple(args, "KKKiiiilKiKK", &x, &z, &out, &b, &j.c, &h, &w, &j.step, &m, &threads, &gain, &offset))
        return NULL;
    j.x = POINTER(x), j.z = POINTER(z), j.out = POINTER(out), j.gain = POINTER(gain), j.offset = POINTER(offset);
    return run(&j, b, h, w, POINTER(m), threads, 0, 1);
}

static PyMethodDef methods[] = {
    {"match", match, METH_VARARGS, "Move a batch to the training spectrum; whether it is finite."},
    {"measure", measure, METH_VARARGS, "Mean and variance of every coefficient, in double precision."},
    {"move", move, METH_VARARGS, "Apply a fixed gain and offset."},
    {0},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", NULL, 0, methods};

PyMODINIT_FUNC PyInit__kernels(void) {
#ifdef __AVX2__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        PyErr_SetString(PyExc_ImportError, "the kernels need a processor with AVX2");
        return NULL;
    }
#endif
    PyObject *found = PyModule_Create(&module);
    if (found) PyModule_AddIntConstant(found, "PARALLEL", GOMP_parallel != 0);
    return found;
}
