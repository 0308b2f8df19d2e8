/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in of cuDNN against plain loops in double, through the calls that
 * a client makes: descriptors, heuristic, engine, plan, execution. */
#include "tests/cuda/emu/client.h"

#include <cudnn.h>
#include <math.h>
#include <time.h>

#define FUNCTIONS(X)                                                           \
    X(create, cudnnCreate)                                                     \
    X(destroy, cudnnDestroy)                                                   \
    X(set_stream, cudnnSetStream)                                              \
    X(version, cudnnGetVersion)                                                \
    X(text, cudnnGetErrorString)                                               \
    X(last_error, cudnnGetLastErrorString)                                     \
    X(make, cudnnBackendCreateDescriptor)                                      \
    X(unmake, cudnnBackendDestroyDescriptor)                                   \
    X(set, cudnnBackendSetAttribute)                                           \
    X(get, cudnnBackendGetAttribute)                                           \
    X(finalize, cudnnBackendFinalize)                                          \
    X(execute, cudnnBackendExecute)

static struct {
    FUNCTIONS(CLIENT_FIELD)
} fn;
static cudnnHandle_t handle;

enum { X = 1, W, Y, BIAS, Z, VIRTUAL };
enum { CONFIGS = 16, MADE = 128 };

/* Steps behind the convolution, in order. */
#define STEP_BIAS  'b'
#define STEP_Z     'z'
#define STEP_RELU  'r'
#define STEP_CLIP  'c' /* ReLU from 0 to 1/2 */
#define STEP_SIGM  's'

struct row {
    const char *name;
    cudnnDataType_t type;
    int spatial;                     /* 2 or 3 */
    int64_t n, c, k, in, r;          /* cube of `in`, window of `r` */
    int64_t pad, stride, dilation, groups;
    int nhwc, backward;
    const char *steps;
    int64_t extra; /* added to the outermost stride of x */
    int64_t output_pad; /* of a transposed convolution */
    double alpha, beta;
    int engines; /* how many plans modes A and B must give each */
};

static size_t size_of(cudnnDataType_t t)
{
    return t == CUDNN_DATA_DOUBLE ? 8 : t == CUDNN_DATA_FLOAT ? 4 : 2;
}

/* Multiples of 1/64 in [-1, 1] are exact in each type. */
static void put(cudnnDataType_t t, char *base, int64_t i, double v)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t h = (uint16_t)(u >> 16);
    if (t == CUDNN_DATA_HALF)
        h = u & 0x7fffffffu ? (uint16_t)((u >> 16 & 0x8000u) |
                                         ((u >> 13 & 0x3ffffu) - (112u << 10)))
                            : 0;
    if (t == CUDNN_DATA_DOUBLE)
        memcpy(base + 8 * i, &v, 8);
    else if (t == CUDNN_DATA_FLOAT)
        memcpy(base + 4 * i, &f, 4);
    else
        memcpy(base + 2 * i, &h, 2);
}

static double take(cudnnDataType_t t, const char *base, int64_t i)
{
    double d;
    float f;
    uint16_t h;
    if (t == CUDNN_DATA_DOUBLE) {
        memcpy(&d, base + 8 * i, 8);
        return d;
    }
    if (t == CUDNN_DATA_FLOAT) {
        memcpy(&f, base + 4 * i, 4);
        return (double)f;
    }
    memcpy(&h, base + 2 * i, 2);
    if (t == CUDNN_DATA_HALF) {
        int e = h >> 10 & 31, sign = h >> 15;
        double v = e ? ldexp(1024 + (h & 1023), e - 25) : ldexp(h & 1023, -24);
        return sign ? -v : v;
    }
    uint32_t u = (uint32_t)h << 16;
    memcpy(&f, &u, 4);
    return (double)f;
}

/* --- descriptors, with a status that sticks */

static cudnnStatus_t st;
static cudnnBackendDescriptor_t made[MADE];
static int n_made;

static cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    assert_int_equal(fn.make(type, &d), CUDNN_STATUS_SUCCESS);
    assert_true(n_made < MADE);
    return made[n_made++] = d;
}

static void unmake_all(void)
{
    while (n_made)
        assert_int_equal(fn.unmake(made[--n_made]), CUDNN_STATUS_SUCCESS);
    st = CUDNN_STATUS_SUCCESS;
}

/* Before each test: what a failed one left. */
static int clean(void **state)
{
    (void)state;
    unmake_all();
    return 0;
}

static void set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
    if (st == CUDNN_STATUS_SUCCESS)
        st = fn.set(d, name, type, n, value);
}

static void set_ref(cudnnBackendDescriptor_t d,
                    cudnnBackendAttributeName_t name,
                    cudnnBackendDescriptor_t value)
{
    set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(cudnnBackendDescriptor_t d)
{
    if (st == CUDNN_STATUS_SUCCESS)
        st = fn.finalize(d);
}

struct tensor {
    int dims;
    int64_t dim[5], stride[5], count;
    cudnnDataType_t type;
    char *host, *device;
};

static void shape(struct tensor *t, cudnnDataType_t type, int spatial,
                  int64_t n, int64_t c, int64_t size, int nhwc, int64_t extra)
{
    memset(t, 0, sizeof *t);
    t->type = type;
    t->dims = spatial + 2;
    t->dim[0] = n;
    t->dim[1] = c;
    int64_t run = nhwc ? c : 1;
    for (int i = t->dims - 1; i >= 2; i--) {
        t->dim[i] = size;
        t->stride[i] = run;
        run *= size;
    }
    t->stride[1] = nhwc ? 1 : run;
    t->stride[0] = (nhwc ? run : run * c) + extra;
    t->count = t->stride[0] * n;
}

static void fill(struct tensor *t, uint64_t *seed)
{
    t->host = calloc((size_t)t->count, size_of(t->type));
    assert_non_null(t->host);
    for (int64_t i = 0; i < t->count; i++)
        put(t->type, t->host, i, client_value(seed));
    t->device = client_buffer(t->host, (size_t)t->count * size_of(t->type));
}

static void drop(struct tensor *t)
{
    free(t->host);
    if (t->device)
        client_release(t->device);
}

static cudnnBackendDescriptor_t describe(const struct tensor *t, int64_t id,
                                         bool is_virtual)
{
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = is_virtual ? CUDNN_DATA_FLOAT : t->type;
    int64_t align = 16;
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->dims, t->dim);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->dims, t->stride);
    set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    finish(d);
    return d;
}

struct problem {
    struct row r;
    struct tensor x, w, y, bias, z;
    int64_t post; /* padding behind; r.pad in front */
};

static void problem_new(struct problem *p, const struct row *r)
{
    uint64_t seed = 3;
    memset(p, 0, sizeof *p);
    p->r = *r;
    p->post = r->pad;
    int64_t window = (r->r - 1) * r->dilation + 1;
    int64_t out = r->backward
                      ? (r->in - 1) * r->stride + window - 2 * r->pad +
                            r->output_pad
                      : (r->in + 2 * r->pad - window) / r->stride + 1;
    shape(&p->x, r->type, r->spatial, r->n, r->c, r->in, r->nhwc, r->extra);
    /* forward [K, C / g, r...]; transposed [C, K / g, r...] */
    shape(&p->w, r->type, r->spatial, r->backward ? r->c : r->k,
          (r->backward ? r->k : r->c) / r->groups, r->r, r->nhwc, 0);
    shape(&p->y, r->type, r->spatial, r->n, r->k, out, r->nhwc, 0);
    shape(&p->bias, r->type, r->spatial, 1, r->k, 1, r->nhwc, 0);
    shape(&p->z, r->type, r->spatial, r->n, r->k, out, r->nhwc, 0);
    fill(&p->x, &seed);
    fill(&p->w, &seed);
    fill(&p->y, &seed);
    fill(&p->bias, &seed);
    fill(&p->z, &seed);
}

static void problem_drop(struct problem *p)
{
    drop(&p->x);
    drop(&p->w);
    drop(&p->y);
    drop(&p->bias);
    drop(&p->z);
}

static void scalar(const struct problem *p, cudnnBackendDescriptor_t d,
                   cudnnBackendAttributeName_t name, double v)
{
    float f = (float)v;
    if (p->r.type == CUDNN_DATA_DOUBLE)
        set(d, name, CUDNN_TYPE_DOUBLE, 1, &v);
    else
        set(d, name, CUDNN_TYPE_FLOAT, 1, &f);
}

static cudnnBackendDescriptor_t
convolution(const struct problem *p, cudnnBackendDescriptor_t x,
            cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y)
{
    const struct row *r = &p->r;
    cudnnBackendDescriptor_t c = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t compute = r->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE
                                                           : CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t n = r->spatial;
    int64_t pre[3] = { r->pad, r->pad, r->pad };
    int64_t post[3] = { p->post, p->post, p->post };
    int64_t stride[3] = { r->stride, r->stride, r->stride };
    int64_t dilation[3] = { r->dilation, r->dilation, r->dilation };
    set(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    set(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
        &mode);
    set(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, pre);
    set(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, post);
    set(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, stride);
    set(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, dilation);
    finish(c);
    cudnnBackendDescriptor_t op = make(
        r->backward
            ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
            : CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    static const cudnnBackendAttributeName_t names[2][6] = {
        { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA }
    };
    set_ref(op, names[r->backward][0], c);
    set_ref(op, names[r->backward][1], x);
    set_ref(op, names[r->backward][2], w);
    set_ref(op, names[r->backward][3], y);
    scalar(p, op, names[r->backward][4], r->alpha);
    scalar(p, op, names[r->backward][5], r->beta);
    finish(op);
    return op;
}

static cudnnBackendDescriptor_t pointwise(char step, cudnnBackendDescriptor_t x,
                                          cudnnBackendDescriptor_t b,
                                          cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnPointwiseMode_t mode = b                   ? CUDNN_POINTWISE_ADD
                                : step == STEP_SIGM ? CUDNN_POINTWISE_SIGMOID_FWD
                                                    : CUDNN_POINTWISE_RELU_FWD;
    cudnnDataType_t math = CUDNN_DATA_FLOAT;
    float half = 0.5f;
    set(d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
    if (step == STEP_CLIP)
        set(d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_FLOAT, 1, &half);
    finish(d);
    cudnnBackendDescriptor_t op =
        make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_ref(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
    set_ref(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_ref(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_ref(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finish(op);
    return op;
}

static cudnnBackendDescriptor_t graph_of(const struct problem *p)
{
    const char *steps = p->r.steps ? p->r.steps : "";
    size_t n = strlen(steps);
    cudnnBackendDescriptor_t ops[5], at;
    at = describe(&p->y, n ? VIRTUAL : Y, n > 0);
    ops[0] = convolution(p, describe(&p->x, X, false),
                         describe(&p->w, W, false), at);
    for (size_t i = 0; i < n; i++) {
        bool last = i == n - 1;
        cudnnBackendDescriptor_t b = NULL;
        cudnnBackendDescriptor_t to =
            describe(&p->y, last ? Y : VIRTUAL + 1 + (int64_t)i, !last);
        if (steps[i] == STEP_BIAS)
            b = describe(&p->bias, BIAS, false);
        if (steps[i] == STEP_Z)
            b = describe(&p->z, Z, false);
        ops[i + 1] = pointwise(steps[i], at, b, to);
        at = to;
    }
    cudnnBackendDescriptor_t g = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        (int64_t)n + 1, ops);
    finish(g);
    return g;
}

/* The configurations of a mode; st tells what the heuristic says. */
static int64_t ask(cudnnBackendDescriptor_t g, cudnnBackendHeurMode_t mode,
                   cudnnBackendDescriptor_t *configs)
{
    int64_t n = 0;
    cudnnBackendDescriptor_t h = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_ref(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g);
    set(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(h);
    if (st != CUDNN_STATUS_SUCCESS)
        return 0;
    for (int i = 0; i < CONFIGS; i++)
        configs[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    st = fn.get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                CONFIGS, &n, configs);
    return n;
}

static cudnnBackendDescriptor_t plan_of(cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t plan =
        make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_ref(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finish(plan);
    return plan;
}

/* Bit per numerical note. */
static unsigned notes_of(cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t e = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = 0;
    unsigned bits = 0;
    assert_int_equal(fn.get(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &e),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(fn.get(e, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                            CUDNN_TYPE_NUMERICAL_NOTE,
                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes),
                     CUDNN_STATUS_SUCCESS);
    for (int64_t i = 0; i < n; i++)
        bits |= 1u << notes[i];
    return bits;
}

static cudnnStatus_t execute(const struct problem *p,
                             cudnnBackendDescriptor_t plan, void *workspace,
                             int64_t n)
{
    cudnnBackendDescriptor_t v = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    int64_t ids[5] = { X, W, Y }, used = 3;
    void *at[5] = { p->x.device, p->w.device, p->y.device };
    if (p->r.steps && strchr(p->r.steps, STEP_BIAS)) {
        ids[used] = BIAS;
        at[used++] = p->bias.device;
    }
    if (p->r.steps && strchr(p->r.steps, STEP_Z)) {
        ids[used] = Z;
        at[used++] = p->z.device;
    }
    if (n)
        used = n;
    set(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, used, ids);
    set(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, used, at);
    set(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
        &workspace);
    finish(v);
    return st == CUDNN_STATUS_SUCCESS ? fn.execute(handle, plan, v) : st;
}

static int64_t workspace_of(cudnnBackendDescriptor_t plan)
{
    int64_t bytes = -1, n = 0;
    assert_int_equal(fn.get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                            CUDNN_TYPE_INT64, 1, &n, &bytes),
                     CUDNN_STATUS_SUCCESS);
    assert_true(bytes >= 0);
    return bytes;
}

/* --- the oracle: for each pair of positions, asks whether they meet */

static double expected(const struct problem *p, int64_t n, int64_t k,
                       const int64_t *o, int64_t *terms)
{
    const struct row *r = &p->r;
    int64_t per_in = r->c / r->groups, per_out = r->k / r->groups;
    int64_t group = k / per_out, volume = 1, windows = 1;
    double sum = 0;
    *terms = 0;
    for (int i = 0; i < r->spatial; i++) {
        volume *= p->x.dim[i + 2];
        windows *= r->r;
    }
    for (int64_t at = 0; at < volume; at++)
        for (int64_t tap = 0; tap < windows; tap++) {
            int64_t a = at, t = tap, xi = 0, wi = 0;
            bool meets = true;
            for (int i = r->spatial - 1; i >= 0; i--) {
                int64_t ai = a % p->x.dim[i + 2], ti = t % r->r;
                a /= p->x.dim[i + 2];
                t /= r->r;
                /* transposed: y[o] gets x[a] where o + pad = a s + t d */
                meets = meets &&
                        (r->backward
                             ? o[i] + r->pad == ai * r->stride + ti * r->dilation
                             : ai + r->pad == o[i] * r->stride + ti * r->dilation);
                xi += ai * p->x.stride[i + 2];
                wi += ti * p->w.stride[i + 2];
            }
            for (int64_t c = 0; meets && c < per_in; c++) {
                int64_t full = group * per_in + c;
                int64_t w0 = r->backward ? full : k;
                int64_t w1 = r->backward ? k % per_out : c;
                sum += take(r->type, p->x.host,
                            n * p->x.stride[0] + full * p->x.stride[1] + xi) *
                       take(r->type, p->w.host,
                            w0 * p->w.stride[0] + w1 * p->w.stride[1] + wi);
                ++*terms;
            }
        }
    return sum;
}

static void compare(const struct problem *p, const char *before)
{
    const struct row *r = &p->r;
    double unit = r->type == CUDNN_DATA_DOUBLE     ? 1e-14
                  : r->type == CUDNN_DATA_FLOAT    ? 1e-6
                  : r->type == CUDNN_DATA_HALF     ? 1e-3
                                                   : 1e-2;
    int64_t volume = p->y.count / r->n / r->k;
    for (int64_t e = 0; e < r->n * r->k * volume; e++) {
        int64_t n = e / volume / r->k, k = e / volume % r->k, rest = e % volume;
        int64_t o[3], to = n * p->y.stride[0] + k * p->y.stride[1], terms;
        for (int i = r->spatial - 1; i >= 0; i--) {
            o[i] = rest % p->y.dim[i + 2];
            rest /= p->y.dim[i + 2];
            to += o[i] * p->y.stride[i + 2];
        }
        double want = r->alpha * expected(p, n, k, o, &terms);
        if (r->beta != 0)
            want += r->beta * take(r->type, before, to);
        for (const char *s = r->steps; s && *s; s++)
            want = *s == STEP_BIAS  ? want + take(r->type, p->bias.host, k)
                   : *s == STEP_Z   ? want + take(r->type, p->z.host, to)
                   : *s == STEP_RELU ? fmax(want, 0)
                   : *s == STEP_CLIP ? fmin(fmax(want, 0), 0.5)
                                     : 1 / (1 + exp(-want));
        double got = take(r->type, p->y.host, to);
        if (!(fabs(got - want) <= unit * (1 + fabs(want) + (double)terms / 16)))
            fail_msg("%s [%d, %d, %d, %d]: %.9g, not %.9g", r->name, (int)n,
                     (int)k, (int)o[0], (int)o[1], got, want);
    }
}

#define F32 CUDNN_DATA_FLOAT
#define F16 CUDNN_DATA_HALF
#define B16 CUDNN_DATA_BFLOAT16
#define F64 CUDNN_DATA_DOUBLE
/* type, spatial, n, c, k, in, r, pad, stride, dilation, groups */
static const struct row rows[] = {
    { "plain", F32, 2, 2, 3, 5, 9, 3, 1, 1, 1, 1, .alpha = 1, .engines = 3 },
    { "channels of 4", F32, 2, 1, 8, 12, 9, 3, 1, 1, 1, 1, .alpha = 1,
      .engines = 5 },
    { "stride, dilation", F32, 2, 1, 4, 8, 13, 3, 2, 2, 2, 1, .alpha = 1,
      .engines = 4 },
    { "alpha, beta", F32, 2, 1, 3, 2, 6, 1, 0, 1, 1, 1, .alpha = 2, .beta = -1,
      .engines = 2 },
    { "groups", F32, 2, 1, 6, 9, 7, 3, 1, 1, 1, 3, .alpha = 1, .engines = 1 },
    { "depthwise", F32, 2, 1, 5, 5, 7, 3, 1, 2, 1, 5, .alpha = 1,
      .engines = 1 },
    { "volume", F32, 3, 1, 4, 4, 5, 3, 1, 1, 1, 1, .alpha = 1, .engines = 4 },
    { "padded batch stride", F32, 2, 3, 4, 4, 6, 3, 1, 1, 1, 1, .extra = 7,
      .alpha = 1, .engines = 2 },
    { "bias", F32, 2, 1, 3, 5, 6, 3, 1, 1, 1, 1, .steps = "b", .alpha = 1,
      .engines = 2 },
    { "residual, bias, relu", F32, 2, 2, 4, 8, 6, 3, 1, 1, 1, 1,
      .steps = "zbr", .alpha = 1, .engines = 4 },
    { "channels last", F32, 2, 2, 8, 8, 6, 3, 1, 1, 1, 1, .nhwc = 1,
      .alpha = 1, .engines = 4 },
    { "channels last, any chain", F32, 2, 1, 8, 8, 6, 3, 1, 1, 1, 1, .nhwc = 1,
      .steps = "bzs", .alpha = 1, .engines = 1 },
    { "channels last, clip", F32, 2, 1, 8, 8, 6, 3, 1, 1, 1, 1, .nhwc = 1,
      .steps = "c", .alpha = 1, .engines = 1 },
    { "half", F16, 2, 1, 8, 16, 6, 3, 1, 1, 1, 1, .alpha = 1, .engines = 2 },
    { "half, fused", F16, 2, 1, 3, 5, 6, 3, 1, 1, 1, 1, .steps = "zbr",
      .alpha = 1, .engines = 1 },
    { "half, channels last", F16, 2, 1, 8, 8, 6, 3, 1, 1, 1, 1, .nhwc = 1,
      .steps = "br", .alpha = 1, .engines = 3 },
    { "bfloat16", B16, 2, 1, 3, 4, 6, 3, 1, 1, 1, 1, .alpha = 1, .engines = 1 },
    { "double", F64, 2, 2, 3, 4, 6, 3, 1, 2, 1, 1, .alpha = 1, .beta = 1,
      .engines = 1 },
    { "transposed", F32, 2, 1, 3, 5, 6, 3, 1, 2, 1, 1, .backward = 1,
      .output_pad = 1, .alpha = 1, .engines = 2 },
    { "transposed, groups", F32, 2, 2, 6, 4, 5, 3, 0, 2, 2, 2, .backward = 1,
      .alpha = 1, .beta = 1, .engines = 1 },
    { "transposed volume", F32, 3, 1, 4, 4, 4, 2, 0, 2, 1, 1, .backward = 1,
      .alpha = 1, .engines = 4 },
};

/* Runs each configuration that a plan can be made of; counts engines. */
static int run_configs(struct problem *p, cudnnBackendHeurMode_t mode)
{
    cudnnBackendDescriptor_t configs[CONFIGS];
    int good = 0;
    int64_t n = ask(graph_of(p), mode, configs);
    if (st != CUDNN_STATUS_SUCCESS)
        return 0;
    size_t bytes = (size_t)p->y.count * size_of(p->y.type);
    CUstream stream;
    assert_int_equal(cu.stream_new(&stream, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(fn.set_stream(handle, stream), CUDNN_STATUS_SUCCESS);
    for (int64_t i = 0; i < n; i++) {
        cudnnBackendDescriptor_t plan = plan_of(configs[i]);
        if (st != CUDNN_STATUS_SUCCESS) {
            /* proposed, and then refused: the next one */
            assert_int_equal(CUDNN_STATUS_CATEGORY(st),
                             CUDNN_STATUS_NOT_SUPPORTED);
            st = CUDNN_STATUS_SUCCESS;
            continue;
        }
        good++;
        size_t need = (size_t)workspace_of(plan);
        void *workspace = need ? client_buffer(NULL, need) : NULL;
        char *before = malloc(bytes);
        assert_non_null(before);
        memcpy(before, p->y.host, bytes);
        cu.to_device((CUdeviceptr)(uintptr_t)p->y.device, before, bytes);
        cudnnStatus_t ran = execute(p, plan, workspace, 0);
        if (ran != CUDNN_STATUS_SUCCESS)
            fail_msg("%s: %s", p->r.name, fn.text(ran));
        assert_int_equal(cu.sync(stream), CUDA_SUCCESS);
        client_read(p->y.host, p->y.device, bytes);
        compare(p, before);
        memcpy(p->y.host, before, bytes);
        free(before);
        if (workspace)
            client_release(workspace);
    }
    assert_int_equal(fn.set_stream(handle, NULL), CUDNN_STATUS_SUCCESS);
    cu.stream_free(stream);
    return good;
}

static void test_convolutions(void **state)
{
    (void)state;
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A,
                                                    CUDNN_HEUR_MODE_B,
                                                    CUDNN_HEUR_MODE_FALLBACK };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct problem p;
        problem_new(&p, &rows[i]);
        for (size_t m = 0; m < 3; m++) {
            int got = run_configs(&p, modes[m]);
            bool fallback = modes[m] == CUDNN_HEUR_MODE_FALLBACK;
            if (fallback ? got > 1 : got != rows[i].engines)
                fail_msg("%s, mode %d: %d plans (%s)", rows[i].name,
                         (int)modes[m], got, fn.text(st));
            unmake_all();
        }
        problem_drop(&p);
    }
    assert_true(cu.count("dnn.convolution") > 0);
    assert_true(cu.count("dnn.transposed") > 0);
}

/* With x = 1 + 2^-12 and a filter of 1: engines that say so round. */
static void test_notes_tell_rounding(void **state)
{
    (void)state;
    struct row r = { "notes", F32, 2, 1, 4, 4, 4, 1, 0, 1, 1, 1, .alpha = 1 };
    struct problem p;
    problem_new(&p, &r);
    float fine = 1 + 0x1p-12f, got;
    for (int64_t i = 0; i < p.x.count; i++)
        memcpy(p.x.host + 4 * i, &fine, 4);
    memset(p.w.host, 0, (size_t)p.w.count * 4);
    for (int64_t i = 0; i < 4; i++)
        put(F32, p.w.host, i * 4 + i, 1);
    cu.to_device((CUdeviceptr)(uintptr_t)p.x.device, p.x.host,
                 (size_t)p.x.count * 4);
    cu.to_device((CUdeviceptr)(uintptr_t)p.w.device, p.w.host,
                 (size_t)p.w.count * 4);
    cudnnBackendDescriptor_t configs[CONFIGS];
    int64_t n = ask(graph_of(&p), CUDNN_HEUR_MODE_A, configs);
    int rounding = 0, exact = 0;
    for (int64_t i = 0; i < n; i++) {
        unsigned notes = notes_of(configs[i]);
        cudnnBackendDescriptor_t plan = plan_of(configs[i]);
        assert_int_equal(st, CUDNN_STATUS_SUCCESS);
        int64_t need = workspace_of(plan);
        void *w = need ? client_buffer(NULL, (size_t)need) : NULL;
        assert_int_equal(execute(&p, plan, w, 0), CUDNN_STATUS_SUCCESS);
        assert_int_equal(cu.sync(NULL), CUDA_SUCCESS);
        client_read(&got, p.y.device, 4);
        bool says = notes & (1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE |
                             1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
        assert_true(got == (says ? 1.0f : fine));
        *(says ? &rounding : &exact) += 1;
        if (w)
            client_release(w);
    }
    assert_true(rounding >= 2 && exact >= 2);
    unmake_all();
    problem_drop(&p);
}

/* Graphs that are well formed and that no engine takes. */
static void test_refused_graphs(void **state)
{
    (void)state;
    static const struct {
        struct row row;
        int64_t more_post;
        cudnnStatus_t want;
    } cases[] = {
        { { "pads differ", F32, 2, 1, 4, 4, 7, 3, 0, 2, 1, 1, .alpha = 1 }, 1,
          CUDNN_STATUS_NOT_SUPPORTED_PADDING },
        { { "one spatial dimension", F32, 1, 1, 4, 4, 6, 3, 1, 1, 1, 1,
            .alpha = 1 },
          0, CUDNN_STATUS_NOT_SUPPORTED_SHAPE },
        { { "transposed and bias", F32, 2, 1, 4, 4, 6, 3, 1, 1, 1, 1,
            .backward = 1, .steps = "b", .alpha = 1 },
          0, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN },
        { { "two activations", F32, 2, 1, 4, 4, 6, 3, 1, 1, 1, 1,
            .steps = "rr", .alpha = 1 },
          0, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN },
        { { "sigmoid, channels first", F32, 2, 1, 4, 4, 6, 3, 1, 1, 1, 1,
            .steps = "bs", .alpha = 1 },
          0, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN },
        { { "residual after bias, channels first", F32, 2, 1, 4, 4, 6, 3, 1, 1,
            1, 1, .steps = "bzr", .alpha = 1 },
          0, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN },
        { { "double, fused", F64, 2, 1, 4, 4, 6, 3, 1, 1, 1, 1, .steps = "b",
            .alpha = 1 },
          0, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct problem p;
        cudnnBackendDescriptor_t configs[CONFIGS];
        problem_new(&p, &cases[i].row);
        p.post += cases[i].more_post;
        cudnnBackendDescriptor_t g = graph_of(&p);
        if (st != CUDNN_STATUS_SUCCESS)
            fail_msg("%s: the graph: %s", cases[i].row.name, fn.text(st));
        (void)ask(g, CUDNN_HEUR_MODE_A, configs);
        if (st != cases[i].want)
            fail_msg("%s: %s", cases[i].row.name, fn.text(st));
        unmake_all();
        problem_drop(&p);
    }
}

/* A tensor descriptor with one thing wrong. */
static void test_attributes(void **state)
{
    (void)state;
    int64_t four[4] = { 1, 2, 3, 4 }, minus = -1, three = 3, zero = 0;
    float f = 1;
    char text[256];
    struct tensor t;
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    assert_int_equal(fn.set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1,
                            &f),
                     CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(fn.set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2,
                            four),
                     CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
    assert_int_equal(fn.set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                            9, four),
                     CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
    assert_int_equal(fn.set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                            4, NULL),
                     CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(fn.set(NULL, CUDNN_ATTR_TENSOR_DIMENSIONS,
                            CUDNN_TYPE_INT64, 4, four),
                     CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(fn.set(d, CUDNN_ATTR_CONVOLUTION_DILATIONS,
                            CUDNN_TYPE_INT64, 1, four),
                     CUDNN_STATUS_NOT_SUPPORTED);
    assert_int_equal(fn.finalize(d), CUDNN_STATUS_BAD_PARAM);
    fn.last_error(text, sizeof text);
    assert_non_null(strstr(text, "required"));
    int64_t got = 0, n = 0;
    assert_int_equal(fn.get(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
                            &n, &got),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);

    /* wrong values show when finalizing; then the right one mends it */
    const struct {
        cudnnBackendAttributeName_t name;
        int64_t count;
        const int64_t *bad;
    } bad[] = { { CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &three },
                { CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &minus },
                { CUDNN_ATTR_TENSOR_STRIDES, 3, four },
                { CUDNN_ATTR_TENSOR_DIMENSIONS, 1, &zero } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        shape(&t, F32, 2, 1, 2, 3, 0, 0);
        cudnnBackendDescriptor_t e = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        int64_t id = 1, align = 16;
        cudnnDataType_t type = F32;
        set(e, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
        set(e, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
        set(e, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
        set(e, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t.dim);
        set(e, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t.stride);
        set(e, bad[i].name, CUDNN_TYPE_INT64, bad[i].count, bad[i].bad);
        assert_int_equal(st, CUDNN_STATUS_SUCCESS);
        assert_int_equal(fn.finalize(e), CUDNN_STATUS_BAD_PARAM);
        set(e, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
        set(e, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t.dim);
        set(e, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t.stride);
        assert_int_equal(fn.finalize(e), CUDNN_STATUS_SUCCESS);
        assert_int_equal(fn.set(e, CUDNN_ATTR_TENSOR_UNIQUE_ID,
                                CUDNN_TYPE_INT64, 1, &id),
                         CUDNN_STATUS_NOT_INITIALIZED);
        assert_int_equal(fn.finalize(e), CUDNN_STATUS_BAD_PARAM);
        int64_t back[8];
        assert_int_equal(fn.get(e, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
                                8, &n, back),
                         CUDNN_STATUS_SUCCESS);
        assert_int_equal(n, 4);
        assert_memory_equal(back, t.stride, 4 * sizeof back[0]);
    }

    /* what is not finalized cannot be referred to, nor what is of another kind */
    cudnnBackendDescriptor_t op =
        make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    assert_int_equal(fn.set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    assert_int_equal(
        fn.set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d),
        CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
    cudnnBackendDescriptor_t none = &none;
    assert_int_equal(fn.make(CUDNN_BACKEND_RNG_DESCRIPTOR, &none),
                     CUDNN_STATUS_NOT_SUPPORTED);
    assert_null(none);
    assert_int_equal(fn.version(), CUDNN_VERSION);
    unmake_all();
}

/* Output shapes must be exact, scales of the right width. */
static void test_operations(void **state)
{
    (void)state;
    struct row r = { "operations", F32, 2, 1, 4, 4, 6, 3, 1, 1, 1, 1,
                     .alpha = 1 };
    struct problem p;
    problem_new(&p, &r);
    p.y.dim[2]--;
    (void)graph_of(&p);
    assert_int_equal(st, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
    unmake_all();
    p.y.dim[2]++;
    p.r.type = F64; /* only for the scales: the tensors are floats */
    (void)graph_of(&p);
    assert_int_equal(st, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    unmake_all();
    p.r.type = F32;
    /* a residual with the unique id of the bias */
    p.r.steps = "zb";
    cudnnBackendDescriptor_t v = describe(&p.y, VIRTUAL, true);
    cudnnBackendDescriptor_t u = describe(&p.y, VIRTUAL + 1, true);
    cudnnBackendDescriptor_t ops[3] = {
        convolution(&p, describe(&p.x, X, false), describe(&p.w, W, false), v),
        pointwise(STEP_Z, v, describe(&p.z, Z, false), u),
        pointwise(STEP_BIAS, u, describe(&p.bias, Z, false),
                  describe(&p.y, Y, false)),
    };
    cudnnBackendDescriptor_t g = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 3, ops);
    assert_int_equal(st, CUDNN_STATUS_SUCCESS);
    assert_int_equal(fn.finalize(g), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    unmake_all();
    problem_drop(&p);
}

/* The first plan of the mode, of a problem with 4 channels. */
static cudnnBackendDescriptor_t some_plan(struct problem *p, bool workspace)
{
    static const struct row r = { "execution", F32, 2, 1, 4, 4, 6, 3, 1, 1, 1,
                                  1, .alpha = 1 };
    cudnnBackendDescriptor_t configs[CONFIGS];
    problem_new(p, &r);
    int64_t n = ask(graph_of(p), workspace ? CUDNN_HEUR_MODE_A
                                           : CUDNN_HEUR_MODE_FALLBACK,
                    configs);
    assert_true(n > 0);
    cudnnBackendDescriptor_t plan = plan_of(configs[0]);
    assert_int_equal(st, CUDNN_STATUS_SUCCESS);
    assert_true(!workspace == !workspace_of(plan));
    return plan;
}

static void test_execution_errors(void **state)
{
    (void)state;
    struct problem p;
    cudnnBackendDescriptor_t plan = some_plan(&p, true);
    assert_int_equal(execute(&p, plan, NULL, 0),
                     CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(execute(&p, plan, NULL, 2), CUDNN_STATUS_BAD_PARAM);
    p.x.device += 4;
    assert_int_equal(execute(&p, plan, NULL, 0),
                     CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    p.x.device -= 4;
    cudnnBackendDescriptor_t open =
        make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    assert_int_equal(execute(&p, open, NULL, 0),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    assert_int_equal(fn.execute(handle, plan, plan),
                     CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
    unmake_all();
    problem_drop(&p);
    plan = some_plan(&p, false);
    cu.fail_at("cudnnBackendExecute", 1, CUDNN_STATUS_EXECUTION_FAILED);
    assert_int_equal(execute(&p, plan, NULL, 0), CUDNN_STATUS_EXECUTION_FAILED);
    assert_int_equal(execute(&p, plan, NULL, 0), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cu.sync(NULL), CUDA_SUCCESS);
    unmake_all();
    problem_drop(&p);
}

/* A layer of ResNet-50 must take a few milliseconds. */
static void test_is_quick(void **state)
{
    (void)state;
    struct row r = { "quick", F32, 2, 1, 64, 64, 56, 3, 1, 1, 1, 1,
                     .alpha = 1 };
    struct problem p;
    struct timespec a, b;
    cudnnBackendDescriptor_t configs[CONFIGS];
    problem_new(&p, &r);
    int64_t n = ask(graph_of(&p), CUDNN_HEUR_MODE_FALLBACK, configs);
    assert_int_equal(n, 1);
    cudnnBackendDescriptor_t plan = plan_of(configs[0]);
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_int_equal(execute(&p, plan, NULL, 0), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cu.sync(NULL), CUDA_SUCCESS);
    clock_gettime(CLOCK_MONOTONIC, &b);
    double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 +
                (double)(b.tv_nsec - a.tv_nsec) / 1e6;
    print_message("116 million products in %.1f ms\n", ms);
    assert_true(ms < 2000); /* a sanitizer on a busy machine included */
    unmake_all();
    problem_drop(&p);
}

/* --- violations */

static void report_host(void)
{
    struct problem p;
    cudnnBackendDescriptor_t plan = some_plan(&p, false);
    static _Alignas(16) char host[1 << 12];
    p.x.device = host;
    (void)execute(&p, plan, NULL, 0);
}

static void report_overlap(void)
{
    struct problem p;
    cudnnBackendDescriptor_t plan = some_plan(&p, false);
    p.y.device = p.x.device;
    (void)execute(&p, plan, NULL, 0);
}

static void report_workspace(void)
{
    struct problem p;
    cudnnBackendDescriptor_t plan = some_plan(&p, true);
    (void)execute(&p, plan, client_buffer(NULL, 256), 0);
}

static void report_destroyed(void)
{
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    struct tensor t;
    shape(&t, F32, 2, 1, 2, 3, 0, 0);
    (void)d;
    (void)fn.finalize(&t); /* no descriptor at all */
}

static const struct client_report reports[] = {
    { "host memory", "is not device memory", report_host },
    { "overlap", "the output overlaps the input", report_overlap },
    { "workspace", "the plan needs", report_workspace },
    { "no descriptor", "is no descriptor", report_destroyed },
};

static void test_reports(void **state)
{
    (void)state;
    client_reports_test(reports, sizeof reports / sizeof reports[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_convolutions, clean),
        cmocka_unit_test_setup(test_notes_tell_rounding, clean),
        cmocka_unit_test_setup(test_refused_graphs, clean),
        cmocka_unit_test_setup(test_attributes, clean),
        cmocka_unit_test_setup(test_operations, clean),
        cmocka_unit_test_setup(test_execution_errors, clean),
        cmocka_unit_test_setup(test_is_quick, clean),
        cmocka_unit_test_setup(test_reports, clean),
    };
    client_start("1");
    void *library = client_open("libcudnn.so.9");
    FUNCTIONS(CLIENT_BIND)
    if (fn.create(&handle) != CUDNN_STATUS_SUCCESS)
        return 1;
    client_reports_enter(argc, argv, reports,
                         sizeof reports / sizeof reports[0]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fn.destroy(handle) != CUDNN_STATUS_SUCCESS || failed;
}
