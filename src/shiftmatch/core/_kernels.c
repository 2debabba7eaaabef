/* A site in one pass: the cosine transform of every map, its moments, the move, and the way back.
 *
 *     z = D_h x D_wᵀ,    z' = gain · z + offset,    x' = D_hᵀ z' D_w
 *
 * Cosines are even or odd about the middle of an axis. So an axis is folded into sums and differences of mirrored
 * entries, which halves the multiplications: the even frequencies are E (x + mirrored x), the odd ones O (x − mirrored
 * x). Maps stay in the first cache while they are transformed. All arithmetic of a channel is done by one thread, so
 * results do not depend on the number of threads. The threads are PyTorch's own: those of its OpenMP runtime.
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
#define LANES 8  /* floats in a vector */
#define BLOCK 16 /* images whose moments are taken in single precision; blocks are added in double precision */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned) __attribute__((weak));

/* E and O of an axis of n entries, e of them even; E (e × e) as it is and transposed, rows padded to whole vectors. */
typedef struct {
    int n, e, o;
    const float *even, *odd, *even_t, *odd_t;
} axis;

typedef struct job {
    void (*work)(struct job *, int item, float *scratch);
    int items, next, failed, scratch;
    int b, c, f, line; /* images, channels, coefficients of a map, floats in a row of scratch */
    axis rows, columns;
    const float *x, *gain, *offset;
    const float *to_mean, *to_raised, *to_floor, *to_level, *to_variance; /* where features are moved to */
    float *z, *out;
    double *mean, *variance;
    double constant, of_moments, of_shape, of_means; /* shrinkages, and what counts as constant */
} job;

INLINE int padded(int n) { return (n + LANES - 1) / LANES * LANES; }

static axis axis_of(int n, const float **matrices) {
    axis a = {n, (n + 1) / 2, n / 2};
    const int even = a.e * padded(a.e), odd = a.o * padded(a.o);
    a.even = *matrices, a.odd = a.even + even, a.even_t = a.odd + odd, a.odd_t = a.even_t + even;
    *matrices = a.odd_t + odd;
    return a;
}

/* C = A B for R rows and V vectors of columns, all in registers. */
INLINE void block(const int R, const int V, const float *a, int lda, const float *b, int ldb, float *c, int ldc, int k) {
    vec sum[8][2];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = (vec){0};
    for (int p = 0; p < k; p++)
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int v = 0; v < V; v++) sum[r][v] += a[r * lda + p] * *(const vec *)(b + p * ldb + v * LANES);
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < V; v++) *(vec *)(c + r * ldc + v * LANES) = sum[r][v];
}

INLINE void rows_of(const int R, const int V, const float *a, int lda, const float *b, int ldb, float *c, int ldc,
                    int m, int k) {
    int r = 0;
    for (; r + R <= m; r += R) block(R, V, a + r * lda, lda, b, ldb, c + r * ldc, ldc, k);
    for (; r < m; r++) block(1, V, a + r * lda, lda, b, ldb, c + r * ldc, ldc, k);
}

/* C = A B with A (m × k), and n columns rounded up to whole vectors. */
INLINE void multiply(const float *a, int lda, const float *b, int ldb, float *c, int ldc, int m, int k, int n) {
    int j = 0;
    for (; j + LANES < n; j += 2 * LANES) rows_of(4, 2, a, lda, b + j, ldb, c + j, ldc, m, k);
    if (j < n) rows_of(8, 1, a, lda, b + j, ldb, c + j, ldc, m, k);
}

/* The row of coefficients that row i of scratch holds: even frequencies come first. */
INLINE int frequency(const axis *a, int i) { return i < a->e ? 2 * i : 2 * (i - a->e) + 1; }

/* z = D_h x D_wᵀ; s and t are scratch. */
INLINE void forward(const job *j, const float *restrict x, float *restrict z, float *restrict s, float *restrict t) {
    const axis *rows = &j->rows, *columns = &j->columns;
    const int h = rows->n, w = columns->n, ld = j->line, odd = padded(columns->e);
    for (int i = 0; i < rows->e; i++) {
        const float *a = x + i * w, *b = x + (h - 1 - i) * w;
        float *sum = s + i * ld, *difference = s + (rows->e + i) * ld;
        if (i == rows->o) /* the middle row of an odd number */
            for (int k = 0; k < w; k++) sum[k] = a[k];
        else
            for (int k = 0; k < w; k++) {
                sum[k] = a[k] + b[k];
                difference[k] = a[k] - b[k];
            }
    }
    multiply(rows->even, padded(rows->e), s, ld, t, ld, rows->e, rows->e, w);
    multiply(rows->odd, padded(rows->o), s + rows->e * ld, ld, t + rows->e * ld, ld, rows->o, rows->o, w);
    for (int i = 0; i < h; i++) {
        float *from = t + i * ld, *sum = s + i * ld, *difference = sum + odd;
        for (int k = 0; k < columns->o; k++) {
            sum[k] = from[k] + from[w - 1 - k];
            difference[k] = from[k] - from[w - 1 - k];
        }
        if (columns->e > columns->o) sum[columns->o] = from[columns->o];
    }
    multiply(s, ld, columns->even_t, padded(columns->e), t, ld, h, columns->e, columns->e);
    multiply(s + odd, ld, columns->odd_t, padded(columns->o), t + odd, ld, h, columns->o, columns->o);
    for (int i = 0; i < h; i++) {
        float *from = t + i * ld, *to = z + frequency(rows, i) * w;
        for (int k = 0; k < columns->o; k++) to[2 * k] = from[k], to[2 * k + 1] = from[odd + k];
        if (columns->e > columns->o) to[w - 1] = from[columns->o];
    }
}

/* x = D_hᵀ (gain · z + offset) D_w; x may be z. */
INLINE void inverse(const job *j, const float *z, const float *restrict gain, const float *restrict offset, float *x,
                    float *restrict s, float *restrict t) {
    const axis *rows = &j->rows, *columns = &j->columns;
    const int h = rows->n, w = columns->n, ld = j->line, odd = padded(columns->e);
    for (int i = 0; i < h; i++) {
        const int row = frequency(rows, i) * w;
        const float *a = z + row, *g = gain + row, *b = offset + row;
        float *to = s + i * ld;
        for (int k = 0; k < columns->o; k++) {
            to[k] = g[2 * k] * a[2 * k] + b[2 * k];
            to[odd + k] = g[2 * k + 1] * a[2 * k + 1] + b[2 * k + 1];
        }
        if (columns->e > columns->o) to[columns->o] = g[w - 1] * a[w - 1] + b[w - 1];
    }
    multiply(s, ld, columns->even, padded(columns->e), t, ld, h, columns->e, columns->e);
    multiply(s + odd, ld, columns->odd, padded(columns->o), t + odd, ld, h, columns->o, columns->o);
    for (int i = 0; i < h; i++) {
        float *from = t + i * ld, *to = s + i * ld;
        for (int k = 0; k < columns->o; k++) {
            to[k] = from[k] + from[odd + k];
            to[w - 1 - k] = from[k] - from[odd + k];
        }
        if (columns->e > columns->o) to[columns->o] = from[columns->o];
    }
    multiply(rows->even_t, padded(rows->e), s, ld, t, ld, rows->e, rows->e, w);
    multiply(rows->odd_t, padded(rows->o), s + rows->e * ld, ld, t + rows->e * ld, ld, rows->o, rows->o, w);
    for (int i = 0; i < rows->e; i++) {
        const float *even = t + i * ld, *difference = t + (rows->e + i) * ld;
        float *a = x + i * w, *b = x + (h - 1 - i) * w;
        if (i == rows->o)
            for (int k = 0; k < w; k++) a[k] = even[k];
        else
            for (int k = 0; k < w; k++) {
                const float sum = even[k] + difference[k];
                b[k] = even[k] - difference[k];
                a[k] = sum;
            }
    }
}

/* Add the moments of n maps to those of the maps before them (Chan et al.); variance holds sums of squares. */
INLINE void add_moments(const float *restrict z, long stride, int before, int n, int f, double *restrict mean,
                        double *restrict variance, float *restrict centre, float *restrict squares) {
    const double share = n / (double)(before + n), between = share * before;
    memset(centre, 0, f * sizeof *centre), memset(squares, 0, f * sizeof *squares);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < f; k++) centre[k] += z[i * stride + k];
    for (int k = 0; k < f; k++) centre[k] /= n;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < f; k++) {
            const float deviation = z[i * stride + k] - centre[k];
            squares[k] += deviation * deviation;
        }
    for (int k = 0; k < f; k++) {
        const double delta = centre[k] - mean[k];
        mean[k] += share * delta;
        variance[k] += squares[k] + between * delta * delta;
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

/* What a thread has: s and t for a map, four rows of f floats, and two of doubles. */
INLINE long scratch_size(const job *j) { return 4L * j->f + 4L * j->f + 2L * j->rows.n * j->line; }

static void match_channel(job *j, int c, float *scratch) {
    const int f = j->f;
    const long stride = (long)j->c * f;
    double *mean = (double *)scratch, *variance = mean + f;
    float *centre = (float *)(variance + f), *squares = centre + f, *gain = squares + f, *offset = gain + f;
    float *s = offset + f, *t = s + j->rows.n * j->line, *z = j->out + (long)c * f;
    const float *x = j->x + (long)c * f;
    memset(mean, 0, 2 * f * sizeof *mean);
    for (int i = 0; i < j->b; i += BLOCK) {
        const int n = j->b - i < BLOCK ? j->b - i : BLOCK;
        for (int k = i; k < i + n; k++) forward(j, x + k * stride, z + k * stride, s, t);
        add_moments(z + i * stride, stride, i, n, f, mean, variance, centre, squares);
    }
    for (int k = 0; k < f; k++) centre[k] = mean[k], squares[k] = variance[k] / j->b;
    if (!gain_and_offset(j, c, centre, squares, gain, offset)) j->failed = 1;
    for (int i = 0; i < j->b && !j->failed; i++) inverse(j, z + i * stride, gain, offset, z + i * stride, s, t);
}

static void measure_channel(job *j, int c, float *scratch) {
    const int f = j->f;
    const long stride = (long)j->c * f;
    double *mean = j->mean + (long)c * f, *variance = j->variance + (long)c * f;
    float *centre = scratch, *squares = centre + f, *s = squares + f, *t = s + j->rows.n * j->line;
    float *z = scratch + scratch_size(j);
    memset(mean, 0, f * sizeof *mean), memset(variance, 0, f * sizeof *variance);
    for (int i = 0; i < j->b; i += BLOCK) {
        const int n = j->b - i < BLOCK ? j->b - i : BLOCK;
        for (int k = 0; k < n; k++) forward(j, j->x + (i + k) * stride + (long)c * f, z + (long)k * f, s, t);
        add_moments(z, f, i, n, f, mean, variance, centre, squares);
    }
    for (int k = 0; k < f; k++) variance[k] /= j->b;
}

static void move_map(job *j, int map, float *scratch) {
    const int f = j->f;
    const long at = (long)map * f, c = map % j->c;
    float *s = scratch, *t = s + j->rows.n * j->line, *z = j->z ? j->z + at : j->out + at;
    forward(j, j->x + at, z, s, t);
    inverse(j, z, j->gain + c * f, j->offset + c * f, j->out + at, s, t);
}

static void work(void *shared) {
    job *j = shared;
    float *scratch = calloc(j->scratch, sizeof *scratch);
    if (!scratch) j->failed = 2;
    for (int item; !j->failed && (item = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->items;)
        j->work(j, item, scratch);
    free(scratch);
}

/* Share the items between threads, without the interpreter's lock; whether all is finite, or an exception. */
static PyObject *run(job *j, int h, int w, const float *matrices, int threads, int extra) {
    j->rows = axis_of(h, &matrices), j->columns = axis_of(w, &matrices);
    j->f = h * w, j->line = padded(j->columns.e) + padded(j->columns.o);
    j->scratch = scratch_size(j) + extra * j->f;
    Py_BEGIN_ALLOW_THREADS
    if (threads > 1 && j->items > 1 && GOMP_parallel)
        GOMP_parallel(work, j, threads, 0);
    else
        work(j);
    Py_END_ALLOW_THREADS
    return j->failed == 2 ? PyErr_NoMemory() : PyBool_FromLong(!j->failed);
}

#define POINTER(x) ((void *)(uintptr_t)(x))
typedef unsigned long long address;

static PyObject *match(PyObject *self, PyObject *args) {
    job j = {match_channel};
    int h, w, threads;
    address x, out, m, mean, raised, floor, level, variance;
    if (!PyArg_ParseTuple(args, "KKiiiiKi(KKKKK)(dddd)", &x, &out, &j.b, &j.c, &h, &w, &m, &threads, &mean, &raised,
                          &floor, &level, &variance, &j.constant, &j.of_moments, &j.of_shape, &j.of_means))
        return NULL;
    j.items = j.c, j.x = POINTER(x), j.out = POINTER(out), j.to_mean = POINTER(mean), j.to_raised = POINTER(raised);
    j.to_floor = POINTER(floor), j.to_level = POINTER(level), j.to_variance = POINTER(variance);
    return run(&j, h, w, POINTER(m), threads, 0);
}

static PyObject *measure(PyObject *self, PyObject *args) {
    job j = {measure_channel};
    int h, w, threads;
    address x, m, mean, variance;
    if (!PyArg_ParseTuple(args, "KiiiiKiKK", &x, &j.b, &j.c, &h, &w, &m, &threads, &mean, &variance)) return NULL;
    j.items = j.c, j.x = POINTER(x), j.mean = POINTER(mean), j.variance = POINTER(variance);
    return run(&j, h, w, POINTER(m), threads, BLOCK);
}

static PyObject *move(PyObject *self, PyObject *args) {
    job j = {move_map};
    int h, w, threads;
    address x, z, out, m, gain, offset;
    if (!PyArg_ParseTuple(args, "KKKiiiiKiKK", &x, &z, &out, &j.b, &j.c, &h, &w, &m, &threads, &gain, &offset))
        return NULL;
    j.items = j.b * j.c, j.x = POINTER(x), j.z = POINTER(z), j.out = POINTER(out);
    j.gain = POINTER(gain), j.offset = POINTER(offset);
    return run(&j, h, w, POINTER(m), threads, 0);
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
    if (found) PyModule_AddIntConstant(found, "LANES", LANES), PyModule_AddIntConstant(found, "PARALLEL", GOMP_parallel != 0);
    return found;
}
