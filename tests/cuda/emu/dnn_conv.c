/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcudnn.so.9: arithmetic.
 *
 * 16 output positions at a time, what a group's filters see there is gathered
 * into a panel [window][channel][16]; tiles of libmac.h multiply it by filters
 * packed as [window][channel][6]. A transposed convolution (backward data)
 * differs only in which input position a window element sees, and in what is
 * an output channel of the filter. */
#include "tests/cuda/emu/dnn.h"
#include "tests/cuda/emu/libmac.h"
#include "tests/cuda/emu/libnum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define D QN_DNN_SPATIAL
#define LANES QN_MAC_COLS

/* The problem with spatial dimensions filled up to three in front. */
struct shape {
    const struct qn_dnn_graph *g;
    int64_t images, groups, in_channels, out_channels; /* per group */
    int64_t in[D], out[D], window[D];
    int64_t in_stride[D], out_stride[D], z_stride[D], window_stride[D];
    int64_t pad[D], step[D], dilation[D];
    int64_t in_size, out_size, window_size;
    bool tf32, down;
};

static double load(cudnnDataType_t type, const char *base, int64_t index)
{
    uint16_t narrow;
    float single;
    double wide;
    switch (type) {
    case CUDNN_DATA_HALF:
        memcpy(&narrow, base + index * 2, 2);
        return (double)qn_num_from_half(narrow);
    case CUDNN_DATA_BFLOAT16:
        memcpy(&narrow, base + index * 2, 2);
        return (double)qn_num_from_bf16(narrow);
    case CUDNN_DATA_FLOAT:
        memcpy(&single, base + index * 4, 4);
        return (double)single;
    default:
        memcpy(&wide, base + index * 8, 8);
        return wide;
    }
}

static void store(cudnnDataType_t type, char *base, int64_t index, double v)
{
    float single = (float)v;
    uint16_t narrow;
    switch (type) {
    case CUDNN_DATA_HALF:
        narrow = qn_num_to_half(single);
        memcpy(base + index * 2, &narrow, 2);
        break;
    case CUDNN_DATA_BFLOAT16:
        narrow = qn_num_to_bf16(single);
        memcpy(base + index * 2, &narrow, 2);
        break;
    case CUDNN_DATA_FLOAT:
        memcpy(base + index * 4, &single, 4);
        break;
    default:
        memcpy(base + index * 8, &v, 8);
        break;
    }
}

static float operand(const struct shape *s, cudnnDataType_t type,
                     const char *base, int64_t index)
{
    float v = (float)load(type, base, index);
    if (s->tf32)
        return qn_num_tf32(v);
    if (s->down)
        return qn_num_from_half(qn_num_to_half(v));
    return v;
}

static void shape_of(const struct qn_dnn_graph *g, int engine, struct shape *s)
{
    memset(s, 0, sizeof *s);
    s->g = g;
    s->images = g->x.dim[0];
    s->groups = g->groups;
    s->in_channels = g->x.dim[1] / g->groups;
    s->out_channels = g->y.dim[1] / g->groups;
    s->in_size = s->out_size = s->window_size = 1;
    for (int i = 0; i < D; i++) {
        int from = i - (D - g->spatial); /* of the graph's dimensions */
        bool has = from >= 0;
        s->in[i] = has ? g->x.dim[from + 2] : 1;
        s->out[i] = has ? g->y.dim[from + 2] : 1;
        s->window[i] = has ? g->w.dim[from + 2] : 1;
        s->in_stride[i] = has ? g->x.stride[from + 2] : 0;
        s->out_stride[i] = has ? g->y.stride[from + 2] : 0;
        s->z_stride[i] = has && g->has_z ? g->z.stride[from + 2] : 0;
        s->window_stride[i] = has ? g->w.stride[from + 2] : 0;
        s->pad[i] = has ? g->pre[from] : 0;
        s->step[i] = has ? g->stride[from] : 1;
        s->dilation[i] = has ? g->dilation[from] : 1;
        s->in_size *= s->in[i];
        s->out_size *= s->out[i];
        s->window_size *= s->window[i];
    }
    bool single = g->x.type == CUDNN_DATA_FLOAT;
    s->tf32 = single && (engine == QN_DNN_TENSOR_NHWC ||
                         engine == QN_DNN_TENSOR_NCHW ||
                         engine == QN_DNN_FUSION);
    s->down = single && engine == QN_DNN_DOWN_CONVERT;
}

/* Split a row-major position into coordinates. */
static void place(const int64_t dim[D], int64_t position, int64_t at[D])
{
    for (int i = D - 1; i >= 0; i--) {
        at[i] = position % dim[i];
        position /= dim[i];
    }
}

static int64_t offset(const int64_t stride[D], const int64_t at[D])
{
    int64_t sum = 0;
    for (int i = 0; i < D; i++)
        sum += stride[i] * at[i];
    return sum;
}

/* Row-major input position that element r of the window sees from an output
 * position; -1 for padding. */
static int64_t seen(const struct shape *s, const int64_t out[D],
                    const int64_t r[D])
{
    int64_t position = 0;
    for (int i = 0; i < D; i++) {
        int64_t at;
        if (s->g->backward) {
            at = out[i] + s->pad[i] - r[i] * s->dilation[i];
            if (at < 0 || at % s->step[i] != 0)
                return -1;
            at /= s->step[i];
        } else {
            at = out[i] * s->step[i] - s->pad[i] + r[i] * s->dilation[i];
        }
        if (at < 0 || at >= s->in[i])
            return -1;
        position = position * s->in[i] + at;
    }
    return position;
}

/* Filter element for channels within a group; tap: offset of the window's
 * element. */
static int64_t filter_at(const struct shape *s, int64_t group, int64_t out,
                         int64_t in, int64_t tap)
{
    const struct qn_dnn_tensor *w = &s->g->w;
    int64_t k = s->g->backward ? group * s->in_channels + in
                               : group * s->out_channels + out;
    int64_t c = s->g->backward ? out : in;
    return k * w->stride[0] + c * w->stride[1] + tap;
}

static double act(const struct qn_dnn_step *t, double v)
{
    switch (t->mode) {
    case CUDNN_POINTWISE_RELU_FWD:
        if (v < t->lower)
            return t->lower + t->slope * (v - t->lower);
        return v > t->upper ? t->upper : v;
    case CUDNN_POINTWISE_TANH_FWD:
        return tanh(v);
    case CUDNN_POINTWISE_SIGMOID_FWD:
        return 1 / (1 + exp(-v));
    case CUDNN_POINTWISE_ELU_FWD:
        return v < 0 ? t->elu * expm1(v) : v;
    case CUDNN_POINTWISE_GELU_FWD:
        return 0.5 * v * (1 + erf(v * 0.7071067811865476));
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
        return 0.5 * v *
               (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
        return log1p(exp(t->softplus * v)) / t->softplus;
    case CUDNN_POINTWISE_SWISH_FWD:
        return v / (1 + exp(-t->swish * v));
    default:
        return v;
    }
}

/* Where an output position lies, in elements: in y and in the residual. */
struct spot {
    int64_t y, z;
};

static struct spot spot_of(const struct shape *s, int64_t image,
                           const int64_t at[D])
{
    return (struct spot){ image * s->g->y.stride[0] + offset(s->out_stride, at),
                          image * s->g->z.stride[0] + offset(s->z_stride, at) };
}

/* Everything behind the sum, for channel c (of all). */
static inline void finish(const struct shape *s, int64_t c, struct spot at, double sum,
                   const char *bias, const char *z, char *y)
{
    const struct qn_dnn_graph *g = s->g;
    int64_t to = at.y + c * g->y.stride[1];
    double v = g->alpha * sum;
    if (g->n_steps == 0 && g->beta == 0 && g->y.type == CUDNN_DATA_FLOAT) {
        float single = (float)v;
        memcpy(y + to * 4, &single, 4);
        return;
    }
    if (g->beta != 0)
        v += g->beta * load(g->y.type, y, to);
    for (int i = 0; i < g->n_steps; i++) {
        const struct qn_dnn_step *t = &g->steps[i];
        if (t->reads_bias)
            v = t->alpha1 * v +
                t->alpha2 * load(g->bias.type, bias, c * g->bias.stride[1]);
        else if (t->reads_z)
            v = t->alpha1 * v +
                t->alpha2 * load(g->z.type, z, at.z + c * g->z.stride[1]);
        else
            v = act(t, t->alpha1 * v);
    }
    store(g->y.type, y, to, v);
}

/* [ceil(out_channels / 6)][window][in_channels][6] of one group */
static void pack_filters(const struct shape *s, const char *w, int64_t group,
                         const int64_t *taps, float *left)
{
    int64_t depth = s->window_size * s->in_channels;
    for (int64_t k = 0; k < s->out_channels; k++) {
        float *to = left + k / QN_MAC_ROWS * QN_MAC_ROWS * depth +
                    k % QN_MAC_ROWS;
        for (int64_t c = 0; c < s->in_channels; c++)
            for (int64_t r = 0; r < s->window_size; r++)
                to[(r * s->in_channels + c) * QN_MAC_ROWS] =
                    operand(s, s->g->w.type, w,
                            filter_at(s, group, k, c, taps[r]));
    }
}

/* One image as [channel][positions], whatever its strides. */
static void unfold(const struct shape *s, const char *x, int64_t image,
                   float *to)
{
    const struct qn_dnn_tensor *t = &s->g->x;
    for (int64_t c = 0; c < t->dim[1]; c++)
        for (int64_t p0 = 0; p0 < s->in_size; p0 += s->in[D - 1]) {
            int64_t at[D];
            place(s->in, p0, at);
            int64_t from = image * t->stride[0] + c * t->stride[1] +
                           offset(s->in_stride, at);
            if (t->type == CUDNN_DATA_FLOAT && !s->tf32 && !s->down &&
                s->in_stride[D - 1] == 1) {
                memcpy(to, x + from * 4, (size_t)s->in[D - 1] * 4);
                to += s->in[D - 1];
                continue;
            }
            for (int64_t i = 0; i < s->in[D - 1]; i++)
                *to++ = operand(s, t->type, x,
                                from + i * s->in_stride[D - 1]);
        }
}

/* Input positions that 16 output positions see: [window][16], -1 for none. */
static void look(const struct shape *s, int64_t p0, int64_t *from)
{
    int64_t out[LANES][D];
    for (int l = 0; l < LANES; l++)
        place(s->out, p0 + l < s->out_size ? p0 + l : s->out_size - 1, out[l]);
    for (int64_t r = 0; r < s->window_size; r++) {
        int64_t at[D];
        place(s->window, r, at);
        for (int l = 0; l < LANES; l++)
            *from++ = seen(s, out[l], at);
    }
}

/* The panel of them for a group's input channels. */
static void gather(const struct shape *s, const float *in, const int64_t *from,
                   float *right)
{
    for (int64_t r = 0; r < s->window_size; r++, from += LANES) {
        bool run = from[0] >= 0;
        for (int l = 1; l < LANES; l++)
            run = run && from[l] == from[0] + l;
        for (int64_t c = 0; c < s->in_channels; c++, right += LANES) {
            const float *row = in + c * s->in_size;
            if (run)
                memcpy(right, row + from[0], LANES * sizeof *right);
            else
                for (int l = 0; l < LANES; l++)
                    right[l] = from[l] < 0 ? 0.0f : row[from[l]];
        }
    }
}

/* Scratch and operands of one execution. */
struct work {
    float *left, *right, *in; /* filters, a panel, an image */
    int64_t *from, *taps;
    const char *bias, *z;
    char *y;
};

static void convolve_panel(const struct shape *s, int64_t image, int64_t p0,
                           int64_t packed, const struct work *w)
{
    int64_t depth = s->window_size * s->in_channels;
    int64_t lanes = s->out_size - p0 < LANES ? s->out_size - p0 : LANES;
    struct spot spots[LANES];
    for (int64_t l = 0; l < lanes; l++) {
        int64_t at[D];
        place(s->out, p0 + l, at);
        spots[l] = spot_of(s, image, at);
    }
    look(s, p0, w->from);
    for (int64_t group = 0; group < s->groups; group++) {
        gather(s, w->in + group * s->in_channels * s->in_size, w->from,
               w->right);
        for (int64_t k0 = 0; k0 < s->out_channels; k0 += QN_MAC_ROWS) {
            float sums[QN_MAC_ROWS * LANES];
            qn_mac_tile(w->left + group * packed + k0 * depth, w->right,
                        (size_t)depth, sums);
            for (int64_t k = k0; k < s->out_channels && k < k0 + QN_MAC_ROWS;
                 k++)
                for (int64_t l = 0; l < lanes; l++)
                    finish(s, group * s->out_channels + k, spots[l],
                           (double)sums[(k - k0) * LANES + l], w->bias, w->z,
                           w->y);
        }
    }
}

static void convolve_wide(const struct shape *s, const char *x, const char *w,
                          char *y)
{
    const struct qn_dnn_tensor *t = &s->g->x;
    int64_t channels = s->groups * s->out_channels;
    for (int64_t e = 0; e < s->images * channels * s->out_size; e++) {
        int64_t image = e / s->out_size / channels;
        int64_t k = e / s->out_size % channels, at[D];
        int64_t group = k / s->out_channels;
        place(s->out, e % s->out_size, at);
        double sum = 0;
        for (int64_t r = 0; r < s->window_size; r++) {
            int64_t r_at[D], from[D];
            place(s->window, r, r_at);
            int64_t position = seen(s, at, r_at);
            int64_t tap = offset(s->window_stride, r_at);
            if (position < 0)
                continue;
            place(s->in, position, from);
            for (int64_t c = 0; c < s->in_channels; c++)
                sum += load(t->type, x,
                            image * t->stride[0] +
                                (group * s->in_channels + c) * t->stride[1] +
                                offset(s->in_stride, from)) *
                       load(s->g->w.type, w,
                            filter_at(s, group, k % s->out_channels, c, tap));
        }
        finish(s, k, spot_of(s, image, at), sum, NULL, NULL, y);
    }
}

bool qn_dnn_convolve(const struct qn_dnn_graph *g, int engine, const char *x,
                     const char *w, const char *bias, const char *z, char *y)
{
    struct shape s;
    shape_of(g, engine, &s);
    if (g->compute == CUDNN_DATA_DOUBLE) {
        convolve_wide(&s, x, w, y);
        return true;
    }
    int64_t depth = s.window_size * s.in_channels;
    int64_t rows = (s.out_channels + QN_MAC_ROWS - 1) / QN_MAC_ROWS;
    int64_t packed = rows * QN_MAC_ROWS * depth;
    struct work work = {
        .left = calloc((size_t)(packed * s.groups), sizeof(float)),
        .right = malloc((size_t)(depth * LANES) * sizeof(float)),
        .in = malloc((size_t)(g->x.dim[1] * s.in_size) * sizeof(float)),
        .from = malloc((size_t)(s.window_size * LANES) * sizeof(int64_t)),
        .taps = malloc((size_t)s.window_size * sizeof(int64_t)),
        .bias = bias,
        .z = z,
        .y = y
    };
    bool ok = work.left && work.right && work.in && work.from &&
              work.taps;
    for (int64_t r = 0; ok && r < s.window_size; r++) {
        int64_t at[D];
        place(s.window, r, at);
        work.taps[r] = offset(s.window_stride, at);
    }
    for (int64_t group = 0; ok && group < s.groups; group++)
        pack_filters(&s, w, group, work.taps, work.left + group * packed);
    for (int64_t image = 0; ok && image < s.images; image++) {
        unfold(&s, x, image, work.in);
        for (int64_t p0 = 0; p0 < s.out_size; p0 += LANES)
            convolve_panel(&s, image, p0, packed, &work);
    }
    free(work.left);
    free(work.right);
    free(work.in);
    free(work.from);
    free(work.taps);
    return ok;
}
