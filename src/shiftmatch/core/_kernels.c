/* A site in one call: the cosine transform of every map, its moments, the move, and the way back.
 *
 *     z = D_h x D_wᵀ,    z' = gain · z + offset,    x' = D_hᵀ z' D_w
 *
 * Eight maps that follow each other in memory are handled at once, one in each lane of a vector, so that maps of every
 * size use whole vectors. Groups of eight maps take turns through the channels: after a period of c / gcd(c, 8) groups a
 * lane has the same channel again. So moments are taken lane by lane, and merged where several lanes share a channel.
 *
 * Cosines are even or odd about the middle of an axis. So an axis is folded into sums and differences of mirrored
 * entries, which halves the multiplications: the even frequencies are E (x + mirrored x), the odd ones O (x − mirrored
 * x). What a thread does depends on the shape alone, so results do not depend on the number of threads. The threads are
 * PyTorch's own: those of its OpenMP runtime.
 *
 * Arrays are contiguous float32, maps (b c h w); shiftmatch/core/kernels.py is the only caller. */

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

/* E and O of an axis of n entries, e of them even, as they are and transposed. */
typedef struct {
    int n, e, o;
    const float *even, *odd, *even_t, *odd_t;
} axis;

typedef struct job {
    void (*work)(struct job *, int item, float *scratch);
    int items, next, failed;
    int c, f;                           /* channels, coefficients of a map */
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

static axis axis_of(int n, const float **matrices) {
    axis a = {n, (n + 1) / 2, n / 2};
    const int even = a.e * a.e, odd = a.o * a.o;
    a.even = *matrices, a.odd = a.even + even, a.even_t = a.odd + odd, a.odd_t = a.even_t + even;
    *matrices = a.odd_t + odd;
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

/* Maps side by side in lanes; those that are not there are zero. */
static void load(const float *const *maps, int f, float *restrict s) {
    int k = 0;
    for (; k + LANES <= f; k += LANES) {
        vec m[LANES];
        UNROLL for (int l = 0; l < LANES; l++) m[l] = maps[l] ? *(const vec *)(maps[l] + k) : (vec){0};
        transpose(m);
        UNROLL for (int l = 0; l < LANES; l++) *(vec *)(s + (k + l) * LANES) = m[l];
    }
    for (; k < f; k++)
        for (int l = 0; l < LANES; l++) s[k * LANES + l] = maps[l] ? maps[l][k] : 0;
}

/* The other way. */
static void unload(const float *restrict s, int f, float *const *maps) {
    int k = 0;
    for (; k + LANES <= f; k += LANES) {
        vec m[LANES];
        UNROLL for (int l = 0; l < LANES; l++) m[l] = *(const vec *)(s + (k + l) * LANES);
        transpose(m);
        UNROLL for (int l = 0; l < LANES; l++) if (maps[l]) *(vec *)(maps[l] + k) = m[l];
    }
    for (; k < f; k++)
        for (int l = 0; l < LANES; l++) if (maps[l]) maps[l][k] = s[k * LANES + l];
}

/* The maps of a group in an array of all, and what its lanes have in an array by channel. */
INLINE void maps_of(const job *j, const float *all, long group, float **maps) {
    for (long l = 0, m = group * LANES; l < LANES; l++, m++) maps[l] = m < j->maps ? (float *)all + m * j->f : NULL;
}
INLINE void channels_of(const job *j, const float *all, long group, const float **maps) {
    for (long l = 0; l < LANES; l++) maps[l] = all + (group * LANES + l) % j->c * j->f;
}

/* R sums of k products for V vectors; entries of the output lie `along` floats apart, and vectors `across`. */
INLINE void sums(const int R, const int V, const float *a, int k, const float *in, float *out, long along,
                 long across) {
    vec sum[4][2];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = (vec){0};
    for (int p = 0; p < k; p++)
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int v = 0; v < V; v++) sum[r][v] += a[r * k + p] * *(const vec *)(in + (p * V + v) * LANES);
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < V; v++) *(vec *)(out + r * along + v * across) = sum[r][v];
}

INLINE void product(const int V, const float *a, int k, const float *in, float *out, long along, long across) {
    int r = 0;
    for (; r + 4 <= k; r += 4) sums(4, V, a + r * k, k, in, out + r * along, along, across);
    for (; r + 2 <= k; r += 2) sums(2, V, a + r * k, k, in, out + r * along, along, across);
    for (; r < k; r++) sums(1, V, a + r * k, k, in, out + r * along, along, across);
}

/* From entries to frequencies along one axis, for V vectors; z may be x, as entries are copied when they are folded. */
INLINE void forward(const int V, const axis *a, const float *x, float *z, long along, long across, float *folded) {
    vec *sum = (vec *)folded, *difference = sum + a->e * V;
    for (int i = 0; i < a->o; i++)
        UNROLL for (int v = 0; v < V; v++) {
            const vec one = *(const vec *)(x + i * along + v * across);
            const vec other = *(const vec *)(x + (a->n - 1 - i) * along + v * across);
            sum[i * V + v] = one + other, difference[i * V + v] = one - other;
        }
    if (a->e > a->o) /* the middle of an odd number */
        UNROLL for (int v = 0; v < V; v++) sum[a->o * V + v] = *(const vec *)(x + a->o * along + v * across);
    product(V, a->even, a->e, (float *)sum, z, 2 * along, across);
    product(V, a->odd, a->o, (float *)difference, z + along, 2 * along, across);
}

/* From frequencies to entries, in place. */
INLINE void backward(const int V, const axis *a, float *x, long along, long across, float *folded) {
    vec *even = (vec *)folded, *odd = even + a->e * V, *sum = odd + a->o * V, *difference = sum + a->e * V;
    for (int i = 0; i < a->n; i++)
        UNROLL for (int v = 0; v < V; v++)
            (i % 2 ? odd : even)[i / 2 * V + v] = *(const vec *)(x + i * along + v * across);
    product(V, a->even_t, a->e, (float *)even, (float *)sum, V * LANES, LANES);
    product(V, a->odd_t, a->o, (float *)odd, (float *)difference, V * LANES, LANES);
    for (int i = 0; i < a->o; i++)
        UNROLL for (int v = 0; v < V; v++) {
            *(vec *)(x + i * along + v * across) = sum[i * V + v] + difference[i * V + v];
            *(vec *)(x + (a->n - 1 - i) * along + v * across) = sum[i * V + v] - difference[i * V + v];
        }
    if (a->e > a->o)
        UNROLL for (int v = 0; v < V; v++) *(vec *)(x + a->o * along + v * across) = sum[a->o * V + v];
}

/* Both axes of a group of maps, by way of s. */
static void to_coefficients(const job *j, float *s, float *z, float *folded) {
    const long h = j->rows.n, w = j->columns.n, line = w * LANES;
    long k = 0, i = 0;
    for (; k + 2 <= w; k += 2) forward(2, &j->rows, s + k * LANES, s + k * LANES, line, LANES, folded);
    if (k < w) forward(1, &j->rows, s + k * LANES, s + k * LANES, line, LANES, folded);
    for (; i + 2 <= h; i += 2) forward(2, &j->columns, s + i * line, z + i * line, LANES, line, folded);
    if (i < h) forward(1, &j->columns, s + i * line, z + i * line, LANES, line, folded);
}

static void to_maps(const job *j, float *s, float *folded) {
    const long h = j->rows.n, w = j->columns.n, line = w * LANES;
    long k = 0, i = 0;
    for (; i + 2 <= h; i += 2) backward(2, &j->columns, s + i * line, LANES, line, folded);
    if (i < h) backward(1, &j->columns, s + i * line, LANES, line, folded);
    for (; k + 2 <= w; k += 2) backward(2, &j->rows, s + k * LANES, line, LANES, folded);
    if (k < w) backward(1, &j->rows, s + k * LANES, line, LANES, folded);
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

/* The coefficients of a group lie in the memory of its result, if that is large enough. */
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
            z[i] = j->out ? coefficients_of(j, group) : own + i * size;
            maps_of(j, j->x, group, maps);
            load((const float *const *)maps, j->f, s);
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
        unload(s, j->f, rows);
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
    channels_of(j, j->gain, at, (const float **)maps), load((const float *const *)maps, j->f, gain);
    channels_of(j, j->offset, at, (const float **)maps), load((const float *const *)maps, j->f, offset);
    for (long turn = 0; turn < turns; turn++) {
        const long group = (chunk * j->chunk + turn) * j->period + at;
        const float *z = s;
        if (j->means)
            z = coefficients_of(j, group);
        else {
            maps_of(j, j->x, group, maps), load((const float *const *)maps, j->f, s);
            to_coefficients(j, s, s, folded);
            if (j->z) maps_of(j, j->z, group, maps), unload(s, j->f, maps);
        }
        for (long k = 0; k < size; k += LANES)
            *(vec *)(s + k) = *(vec *)(gain + k) * *(const vec *)(z + k) + *(vec *)(offset + k);
        to_maps(j, s, folded);
        maps_of(j, j->out, group, maps), unload(s, j->f, maps);
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
    if (!PyArg_ParseTuple(args, "KKiiiiKi(KKKKK)(dddd)(KK)", &x, &out, &b, &j.c, &h, &w, &m, &threads, &mean, &raised,
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
    if (!PyArg_ParseTuple(args, "KiiiiKiKK", &x, &b, &j.c, &h, &w, &m, &threads, &mean, &variance)) return NULL;
    j.x = POINTER(x), j.mean = POINTER(mean), j.variance = POINTER(variance);
    return run(&j, b, h, w, POINTER(m), threads, 1, 0);
}

static PyObject *move(PyObject *self, PyObject *args) {
    job j = {0};
    int b, h, w, threads;
    address x, z, out, m, gain, offset;
    if (!PyArg_ParseTuple(args, "KKKiiiiKiKK", &x, &z, &out, &b, &j.c, &h, &w, &m, &threads, &gain, &offset))
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
