/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TopK and NonZero.
 *
 * TopK keeps the k best of a row in a heap whose top is the worst of them, so a
 * row costs n comparisons and few moves where k is small, n log k at most. Each
 * element becomes an unsigned key that orders like its value (NaN above all,
 * -0 as 0); smaller is better, a tie goes to the lower index. Rejected: sorting
 * whole rows, which costs n log n for the usual k of a few hundred in 100,000.
 */
#include "runtime/base/checked.h"
#include "runtime/base/half.h"
#include "runtime/base/string.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"

#include <string.h>

/* ---- TopK ---- */

typedef struct topk_entry {
    uint64_t key;
    int64_t index;
} topk_entry;

typedef struct topk_job {
    const void *x;
    void *values;
    int64_t *indices;
    int64_t n, k, inner;
    uint64_t flip;     /* all ones: the largest are wanted */
    topk_entry *heaps; /* [threads][k] */
    void (*row)(const struct topk_job *j, int64_t row, topk_entry *heap);
} topk_job;

static inline bool worse(topk_entry a, topk_entry b)
{
    return a.key != b.key ? a.key > b.key : a.index > b.index;
}

/* Put e where the root was; the worst of each subtree is on its top. */
static inline void sift_down(topk_entry *heap, int64_t n, int64_t at,
                             topk_entry e)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && worse(heap[child + 1], heap[child]))
            child++;
        if (!worse(heap[child], e))
            break;
        heap[at] = heap[child];
    }
    heap[at] = e;
}

/* Best first. */
static void sort_heap(topk_entry *heap, int64_t n)
{
    while (n > 1) {
        topk_entry last = heap[--n];
        heap[n] = heap[0];
        sift_down(heap, n, 0, last);
    }
}

static inline uint64_t key_f32(float v)
{
    uint32_t u = v != v ? 0x7fc00000u : qn_f32_bits(v + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static inline uint64_t key_f64(double v)
{
    uint64_t u;
    v += 0.0;
    memcpy(&u, &v, sizeof u);
    if (v != v)
        u = 0x7ff8000000000000u;
    return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}

#define KEY_F16(v)      key_f32(qn_f16_to_f32(v))
#define KEY_BF16(v)     key_f32(qn_bf16_to_f32(v))
#define KEY_SIGNED(v)   ((uint64_t)(int64_t)(v) ^ (uint64_t)1 << 63)
#define KEY_UNSIGNED(v) ((uint64_t)(v))

#define DEFINE_TOPK(name, T, KEY)                                         \
    static void name(const topk_job *j, int64_t row, topk_entry *heap)    \
    {                                                                     \
        int64_t outer = row / j->inner, column = row % j->inner;          \
        const T *x = (const T *)j->x + outer * j->n * j->inner + column;  \
        T *values = (T *)j->values + outer * j->k * j->inner + column;    \
        int64_t *indices = j->indices + outer * j->k * j->inner + column; \
        for (int64_t i = 0; i < j->k; i++)                                \
            heap[i] = (topk_entry){ KEY(x[i * j->inner]) ^ j->flip, i };  \
        for (int64_t i = j->k / 2; i-- > 0;)                              \
            sift_down(heap, j->k, i, heap[i]);                            \
        for (int64_t i = j->k; i < j->n; i++) {                           \
            uint64_t key = KEY(x[i * j->inner]) ^ j->flip;                \
            if (key < heap[0].key)                                        \
                sift_down(heap, j->k, 0, (topk_entry){ key, i });         \
        }                                                                 \
        sort_heap(heap, j->k);                                            \
        for (int64_t i = 0; i < j->k; i++) {                              \
            values[i * j->inner] = x[heap[i].index * j->inner];           \
            indices[i * j->inner] = heap[i].index;                        \
        }                                                                 \
    }

DEFINE_TOPK(topk_f32, float, key_f32)
DEFINE_TOPK(topk_f64, double, key_f64)
DEFINE_TOPK(topk_f16, uint16_t, KEY_F16)
DEFINE_TOPK(topk_bf16, uint16_t, KEY_BF16)
DEFINE_TOPK(topk_i8, int8_t, KEY_SIGNED)
DEFINE_TOPK(topk_i16, int16_t, KEY_SIGNED)
DEFINE_TOPK(topk_i32, int32_t, KEY_SIGNED)
DEFINE_TOPK(topk_i64, int64_t, KEY_SIGNED)
DEFINE_TOPK(topk_u8, uint8_t, KEY_UNSIGNED)
DEFINE_TOPK(topk_u16, uint16_t, KEY_UNSIGNED)
DEFINE_TOPK(topk_u32, uint32_t, KEY_UNSIGNED)
DEFINE_TOPK(topk_u64, uint64_t, KEY_UNSIGNED)

/* items: rows */
static void topk_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const topk_job *j = arg;
    for (int64_t row = begin; row < end; row++)
        j->row(j, row, j->heaps + thread * j->k);
}

static qn_status topk_launch(const qn_launch *k)
{
    static void (*const by_type[QN_DTYPE_COUNT])(const topk_job *, int64_t,
                                                 topk_entry *) = {
        [QN_F32] = topk_f32,   [QN_F64] = topk_f64, [QN_F16] = topk_f16,
        [QN_BF16] = topk_bf16, [QN_I8] = topk_i8,   [QN_I16] = topk_i16,
        [QN_I32] = topk_i32,   [QN_I64] = topk_i64, [QN_U8] = topk_u8,
        [QN_U16] = topk_u16,   [QN_U32] = topk_u32, [QN_U64] = topk_u64,
    };
    const qn_shape *s = &k->in[0].shape;
    int64_t given = qn_node_int(k->node, "axis", -1);
    int axis = (int)(given < 0 ? given + s->rank : given);
    topk_job j = { .x = k->in[0].data,
                   .values = k->out[0].data,
                   .indices = k->out[1].data,
                   .n = s->dims[axis],
                   .k = k->out[0].shape.dims[axis],
                   .inner = qn_shape_product(s, axis + 1, s->rank),
                   .flip = qn_node_int(k->node, "largest", 1) ? UINT64_MAX : 0,
                   .heaps = k->workspace,
                   .row = by_type[k->in[0].dtype] };
    if (j.k)
        qn_parallel(k->team, qn_shape_product(s, 0, axis) * j.inner,
                    qn_grain((double)j.n * 1.5 + (double)j.k * 20), topk_piece,
                    &j);
    return QN_OK;
}

static qn_status topk_prepare(qn_prepare *p, qn_error *err)
{
    const qn_shape *s = &p->out[0].shape;
    int64_t given = qn_node_int(p->node, "axis", -1);
    int64_t k = s->dims[given < 0 ? given + s->rank : given];
    if (!qn_mul_size((size_t)k, sizeof(topk_entry) * (size_t)p->max_threads,
                     &p->workspace))
        return qn_fail(err, QN_TOO_LARGE, "no memory for %lld entries",
                       (long long)k);
    return QN_OK;
}

/* ---- NonZero ---- */

enum { FLAGS = 256 };

#define FLAG_LOOP(T, SET)                       \
    {                                           \
        const T *p = (const T *)t->data + from; \
        for (int64_t i = 0; i < n; i++)         \
            flags[i] = SET;                     \
        break;                                  \
    }

/* flags[i] = element from + i is not zero. A float is zero whatever its sign; a
 * string is zero when empty. */
static void set_flags(const qn_tensor *t, int64_t from, int64_t n,
                      uint8_t *restrict flags)
{
    switch (t->dtype) {
    case QN_F32:
        FLAG_LOOP(float, p[i] != 0)
    case QN_F64:
        FLAG_LOOP(double, p[i] != 0)
    case QN_F16:
    case QN_BF16:
        FLAG_LOOP(uint16_t, (p[i] & 0x7fff) != 0)
    case QN_C64: {
        const float *p = (const float *)t->data + 2 * from;
        for (int64_t i = 0; i < n; i++)
            flags[i] = p[2 * i] != 0 || p[2 * i + 1] != 0;
        break;
    }
    case QN_C128: {
        const double *p = (const double *)t->data + 2 * from;
        for (int64_t i = 0; i < n; i++)
            flags[i] = p[2 * i] != 0 || p[2 * i + 1] != 0;
        break;
    }
    case QN_STRING:
        FLAG_LOOP(qn_string, p[i].len != 0)
    case QN_U16:
    case QN_I16:
        FLAG_LOOP(uint16_t, p[i] != 0)
    case QN_U32:
    case QN_I32:
        FLAG_LOOP(uint32_t, p[i] != 0)
    case QN_U64:
    case QN_I64:
        FLAG_LOOP(uint64_t, p[i] != 0)
    default:
        FLAG_LOOP(uint8_t, p[i] != 0)
    }
}

static int64_t count_set(const qn_tensor *t)
{
    int64_t n = qn_count(t), found = 0;
    uint8_t flags[FLAGS];
    for (int64_t from = 0; from < n; from += FLAGS) {
        int64_t m = n - from < FLAGS ? n - from : FLAGS;
        unsigned sum = 0;
        set_flags(t, from, m, flags);
        for (int64_t i = 0; i < m; i++)
            sum += flags[i];
        found += sum;
    }
    return found;
}

/* Columns of one innermost row that are set, from out[written] on. No branch
 * depends on the data: each column is written, and kept if it is set. */
static int64_t write_row(const qn_tensor *t, int64_t base, int64_t n,
                         int64_t *out, int64_t written, int64_t found)
{
    uint8_t flags[FLAGS];
    for (int64_t from = 0; from < n; from += FLAGS) {
        int64_t m = n - from < FLAGS ? n - from : FLAGS;
        set_flags(t, base + from, m, flags);
        for (int64_t i = 0; i < m && written < found; i++) {
            out[written] = from + i;
            written += flags[i];
        }
    }
    return written;
}

/* out is [rank, found] */
static void write_positions(const qn_tensor *t, int64_t found, int64_t *out)
{
    int last = t->shape.rank - 1;
    int64_t n = t->shape.dims[last], rows = qn_count(t) / n;
    int64_t written = 0, at[QN_MAX_RANK] = { 0 };
    for (int64_t row = 0; row < rows && written < found; row++) {
        int64_t start = written;
        written = write_row(t, row * n, n, out + last * found, written, found);
        for (int d = 0; d < last; d++)
            for (int64_t i = start; i < written; i++)
                out[d * found + i] = at[d];
        for (int d = last - 1; d >= 0 && ++at[d] == t->shape.dims[d]; d--)
            at[d] = 0;
    }
}

static qn_status nonzero_launch(const qn_launch *k)
{
    const qn_tensor *t = &k->in[0];
    int64_t found = count_set(t);
    if (t->shape.rank && found)
        write_positions(t, found, k->out[0].data);
    k->out[0].shape = qn_shape_make(2, (int64_t[]){ t->shape.rank, found });
    return QN_OK;
}

static const qn_kernel kernels[] = {
    { .domain = "",
      .name = "TopK",
      .since = 1,
      .until = QN_OPSET_MAX,
      .prepare = topk_prepare,
      .launch = topk_launch },
    { .domain = "",
      .name = "NonZero",
      .since = 1,
      .until = QN_OPSET_MAX,
      .launch = nonzero_launch },
};

QN_KERNEL_TABLE(qn_cpu_select, kernels);
