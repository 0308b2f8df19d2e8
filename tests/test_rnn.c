/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LSTM, GRU and RNN against the equations of the specification, element by
 * element in double; with weights constant (packed) and not.
 */
#include "tests/support/node.h"
#include "tests/support/packed.h"

#include "runtime/base/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct layer {
    const char *name, *op, *direction;
    int64_t t, b, i, h;
    bool bias, lens, h0, c0, peep, batch_first, input_forget, lbr;
    float clip;
    int n_acts;
    const char *acts[6];
    size_t n_alpha, n_beta;
    float alpha[3], beta[3];
} layer;

static const layer layers[] = {
    { .name = "lstm", .op = "LSTM", .direction = "forward", .t = 5, .b = 3,
      .i = 4, .h = 6 },
    { .name = "lstm all inputs", .op = "LSTM", .direction = "bidirectional",
      .t = 7, .b = 3, .i = 5, .h = 9, .bias = true, .lens = true, .h0 = true,
      .c0 = true, .peep = true },
    { .name = "lstm reverse", .op = "LSTM", .direction = "reverse", .t = 4,
      .b = 2, .i = 3, .h = 17, .bias = true, .lens = true },
    { .name = "lstm batch first", .op = "LSTM", .direction = "bidirectional",
      .t = 3, .b = 4, .i = 5, .h = 8, .bias = true, .h0 = true, .c0 = true,
      .batch_first = true, .lens = true },
    { .name = "lstm clip, forget", .op = "LSTM", .direction = "forward",
      .t = 60, .b = 1, .i = 3, .h = 5, .bias = true, .input_forget = true,
      .clip = 0.4f },
    { .name = "lstm clip", .op = "LSTM", .direction = "forward", .t = 60,
      .b = 2, .i = 3, .h = 15, .bias = true, .clip = 0.4f },
    { .name = "lstm long", .op = "LSTM", .direction = "forward", .t = 101,
      .b = 2, .i = 7, .h = 40, .bias = true },
    { .name = "lstm wide batch", .op = "LSTM", .direction = "forward", .t = 2,
      .b = 250, .i = 3, .h = 4, .bias = true },
    { .name = "lstm deep", .op = "LSTM", .direction = "forward", .t = 2, .b = 1,
      .i = 600, .h = 130, .bias = true },
    { .name = "lstm activations", .op = "LSTM", .direction = "bidirectional",
      .t = 4, .b = 2, .i = 3, .h = 4, .bias = true, .n_acts = 6,
      .acts = { "HardSigmoid", "Softsign", "Relu", "Sigmoid", "LeakyRelu",
                "ScaledTanh" },
      .n_alpha = 3, .alpha = { 0.3f, 0.2f, 0.7f }, .n_beta = 2,
      .beta = { 0.45f, 1.2f } },
    { .name = "gru", .op = "GRU", .direction = "forward", .t = 5, .b = 3, .i = 4,
      .h = 6, .bias = true },
    { .name = "gru linear before reset", .op = "GRU",
      .direction = "bidirectional", .t = 5, .b = 3, .i = 4, .h = 11,
      .bias = true, .lbr = true, .lens = true, .h0 = true },
    { .name = "gru reverse, batch first", .op = "GRU", .direction = "reverse",
      .t = 6, .b = 2, .i = 3, .h = 20, .bias = true, .h0 = true,
      .batch_first = true, .lens = true },
    { .name = "gru no bias, clip", .op = "GRU", .direction = "forward", .t = 3,
      .b = 2, .i = 3, .h = 4, .lbr = true, .clip = 0.3f },
    { .name = "gru activations", .op = "GRU", .direction = "forward", .t = 4,
      .b = 2, .i = 3, .h = 4, .bias = true, .n_acts = 2,
      .acts = { "Affine", "Elu" }, .n_alpha = 2, .alpha = { 0.3f, 0.8f },
      .n_beta = 1, .beta = { 0.1f } },
    { .name = "rnn", .op = "RNN", .direction = "bidirectional", .t = 5, .b = 3,
      .i = 4, .h = 6, .bias = true, .lens = true, .h0 = true },
    { .name = "rnn activations", .op = "RNN", .direction = "bidirectional",
      .t = 4, .b = 2, .i = 3, .h = 4, .n_acts = 2,
      .acts = { "ThresholdedRelu", "softplus" }, .n_alpha = 1,
      .alpha = { 0.05f } },
    { .name = "no steps", .op = "LSTM", .direction = "forward", .t = 0, .b = 2,
      .i = 3, .h = 4, .h0 = true, .c0 = true },
};

static uint32_t seed;

static double *numbers(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((int)(seed >> 20 & 63) - 32) / 64.0;
    }
    return p;
}

/* As an array of the type; exact for these numbers. */
static void *as(qn_dtype t, const double *x, int64_t n)
{
    void *p = calloc((size_t)n + 1, 8);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        if (t == QN_F32)
            ((float *)p)[i] = (float)x[i];
        else if (t == QN_F64)
            ((double *)p)[i] = x[i];
        else
            ((uint16_t *)p)[i] = qn_f64_to_f16(x[i]);
    return p;
}

static double get(qn_dtype t, const void *p, int64_t i)
{
    return t == QN_F32   ? (double)((const float *)p)[i]
           : t == QN_F64 ? ((const double *)p)[i]
                         : (double)qn_f16_to_f32(((const uint16_t *)p)[i]);
}

/* ---- the specification ---- */

typedef struct fn {
    const char *name;
    double a, b;
} fn;

static double apply(const fn *f, double clip, double x)
{
    if (clip > 0)
        x = fmax(-clip, fmin(clip, x));
    if (!strcmp(f->name, "Sigmoid"))
        return 1 / (1 + exp(-x));
    if (!strcmp(f->name, "Tanh"))
        return tanh(x);
    if (!strcmp(f->name, "Relu"))
        return fmax(0, x);
    if (!strcmp(f->name, "HardSigmoid"))
        return fmin(1, fmax(0, f->a * x + f->b));
    if (!strcmp(f->name, "Softsign"))
        return x / (1 + fabs(x));
    if (!strcmp(f->name, "LeakyRelu"))
        return x < 0 ? f->a * x : x;
    if (!strcmp(f->name, "ScaledTanh"))
        return f->a * tanh(f->b * x);
    if (!strcmp(f->name, "Affine"))
        return f->a * x + f->b;
    if (!strcmp(f->name, "Elu"))
        return x < 0 ? f->a * (exp(x) - 1) : x;
    if (!strcmp(f->name, "ThresholdedRelu"))
        return x >= f->a ? x : 0;
    return log(1 + exp(x));
}

/* The functions of direction d; worked out by hand for the rows above. */
static void functions(const layer *l, int d, fn f[3])
{
    const int per = !strcmp(l->op, "LSTM") ? 3 : !strcmp(l->op, "GRU") ? 2 : 1;
    f[0] = (fn){ per == 1 ? "Tanh" : "Sigmoid", 0, 0 };
    f[1] = f[2] = (fn){ "Tanh", 0, 0 };
    for (int i = 0; l->n_acts && i < per; i++)
        f[i].name = l->acts[d * per + i];
    if (!strcmp(l->name, "lstm activations") && !d)
        f[0].a = (double)0.3f, f[0].b = (double)0.45f;
    if (!strcmp(l->name, "lstm activations") && d)
        f[1].a = (double)0.2f, f[2].a = (double)0.7f, f[2].b = (double)1.2f;
    if (!strcmp(l->name, "gru activations"))
        f[0].a = (double)0.3f, f[0].b = (double)0.1f, f[1].a = (double)0.8f;
    if (!strcmp(l->name, "rnn activations"))
        f[0].a = (double)0.05f;
}

typedef struct data {
    double *x, *w, *r, *b, *h0, *c0, *p;
    int32_t lens[300];
    double *y, *yh, *yc;
    int dirs, gates;
} data;

/* W row g of gate `gate`, times x */
static double sum(const double *m, const double *v, int64_t row, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += m[row * n + i] * v[i];
    return s;
}

static void sequence(const layer *l, data *q, int d, int64_t n)
{
    const int64_t H = l->h, I = l->i, G = q->gates;
    const double *w = q->w + d * G * H * I, *r = q->r + d * G * H * H;
    const double *wb = q->b + d * 2 * G * H, *rb = wb + G * H;
    const double *p = q->p + d * 3 * H, clip = (double)l->clip;
    const bool back = d || !strcmp(l->direction, "reverse");
    const int64_t at = (l->batch_first ? n * q->dirs + d : d * l->b + n) * H;
    double h[256], c[256], next[256], pre[4][256], rec[4][256];
    fn f[3];
    functions(l, d, f);
    for (int64_t k = 0; k < H; k++) {
        h[k] = l->h0 ? q->h0[at + k] : 0;
        c[k] = l->c0 ? q->c0[at + k] : 0;
    }
    for (int64_t s = 0; s < q->lens[n]; s++) {
        const int64_t t = back ? q->lens[n] - 1 - s : s;
        const double *x = q->x + (l->batch_first ? n * l->t + t
                                                 : t * l->b + n) * I;
        for (int64_t g = 0; g < G; g++)
            for (int64_t k = 0; k < H; k++) {
                pre[g][k] = sum(w, x, g * H + k, I) +
                            (l->bias ? wb[g * H + k] : 0);
                rec[g][k] = sum(r, h, g * H + k, H) +
                            (l->bias ? rb[g * H + k] : 0);
            }
        if (!strcmp(l->op, "RNN")) {
            for (int64_t k = 0; k < H; k++)
                next[k] = apply(&f[0], clip, pre[0][k] + rec[0][k]);
        } else if (!strcmp(l->op, "GRU")) {
            double rt[256], rh[256];
            for (int64_t k = 0; k < H; k++) {
                rt[k] = apply(&f[0], clip, pre[1][k] + rec[1][k]);
                rh[k] = rt[k] * h[k];
            }
            for (int64_t k = 0; k < H; k++) {
                double z = apply(&f[0], clip, pre[0][k] + rec[0][k]);
                double inner = l->lbr ? rt[k] * rec[2][k]
                                      : sum(r, rh, 2 * H + k, H) +
                                            (l->bias ? rb[2 * H + k] : 0);
                double ht = apply(&f[1], clip, pre[2][k] + inner);
                next[k] = (1 - z) * ht + z * h[k];
            }
        } else {
            for (int64_t k = 0; k < H; k++) {
                double i = apply(&f[0], clip, pre[0][k] + rec[0][k] +
                                 (l->peep ? p[k] * c[k] : 0));
                double o = pre[1][k] + rec[1][k];
                double ff = apply(&f[0], clip, pre[2][k] + rec[2][k] +
                                  (l->peep ? p[2 * H + k] * c[k] : 0));
                double g = apply(&f[1], clip, pre[3][k] + rec[3][k]);
                c[k] = (l->input_forget ? 1 - i : ff) * c[k] + i * g;
                o = apply(&f[0], clip, o + (l->peep ? p[H + k] * c[k] : 0));
                /* as ONNX Runtime 1.32: the state is not clipped */
                next[k] = o * apply(&f[2], 0, c[k]);
            }
        }
        memcpy(h, next, sizeof h);
        for (int64_t k = 0; k < H; k++)
            q->y[(l->batch_first ? (n * l->t + t) * q->dirs + d
                                 : (t * q->dirs + d) * l->b + n) * H + k] = h[k];
    }
    for (int64_t k = 0; k < H; k++) {
        q->yh[at + k] = h[k];
        q->yc[at + k] = c[k];
    }
}

/* ---- running ---- */

static void expect(const layer *l, const test_node *t, uint32_t i,
                   const double *want, int64_t n)
{
    const qn_dtype d = t->out[i].dtype;
    const double tol = d == QN_F64 ? 1e-12 : d == QN_F32 ? 2e-6 : 2e-3;
    if (qn_count(&t->out[i]) != n)
        fail_msg("%s output %u: %lld elements, expected %lld", l->name, i,
                 (long long)qn_count(&t->out[i]), (long long)n);
    for (int64_t k = 0; k < n; k++) {
        double g = get(d, t->out[i].data, k);
        if (!(fabs(g - want[k]) <= tol * (1 + fabs(want[k]))))
            fail_msg("%s %s output %u index %lld: %.9g, expected %.9g", l->name,
                     qn_dtype_name(d), i, (long long)k, g, want[k]);
    }
}

static void set_attributes(const layer *l, test_node *t, qn_text *acts)
{
    test_node_string(t, "direction", l->direction);
    test_node_int(t, "hidden_size", l->h);
    test_node_int(t, "layout", l->batch_first);
    if (l->input_forget)
        test_node_int(t, "input_forget", 1);
    if (l->lbr)
        test_node_int(t, "linear_before_reset", 1);
    if (l->clip > 0)
        test_node_float(t, "clip", l->clip);
    if (l->n_alpha)
        test_node_floats(t, "activation_alpha", l->n_alpha, l->alpha);
    if (l->n_beta)
        test_node_floats(t, "activation_beta", l->n_beta, l->beta);
    if (l->n_acts) {
        qn_attr *a = &t->attrs[t->node.n_attrs++];
        for (int i = 0; i < l->n_acts; i++)
            acts[i] = (qn_text){ l->acts[i], strlen(l->acts[i]) };
        *a = (qn_attr){ .name = "activations", .kind = QN_ATTR_STRINGS,
                        .n = (size_t)l->n_acts, .strings = acts };
    }
}

static void run(const layer *l, qn_dtype type)
{
    data q = { .dirs = !strcmp(l->direction, "bidirectional") ? 2 : 1,
               .gates = !strcmp(l->op, "LSTM") ? 4 : !strcmp(l->op, "GRU") ? 3
                                                                           : 1 };
    const int64_t D = q.dirs, G = q.gates, H = l->h, B = l->b, T = l->t;
    const int64_t n[8] = { T * B * l->i, D * G * H * l->i, D * G * H * H,
                           D * 2 * G * H, B, D * B * H, D * B * H, D * 3 * H };
    const bool lstm = G == 4;
    seed = 11;
    q.x = numbers(n[0]), q.w = numbers(n[1]), q.r = numbers(n[2]);
    q.b = numbers(n[3]), q.h0 = numbers(n[5]), q.c0 = numbers(n[6]);
    q.p = numbers(n[7]);
    q.y = calloc((size_t)(T * D * B * H) + 1, sizeof *q.y);
    q.yh = numbers(n[5]), q.yc = numbers(n[5]);
    for (int64_t b = 0; b < B; b++)
        q.lens[b] = (int32_t)(l->lens ? (b * 5 + 2) % (T + 1) : T);
    for (int d = 0; d < q.dirs; d++)
        for (int64_t b = 0; b < B; b++)
            sequence(l, &q, d, b);

    double *src[8] = { q.x, q.w, q.r, q.b, NULL, q.h0, q.c0, q.p };
    void *in[8] = { 0 };
    qn_text acts[6];
    test_node t;
    test_node_init(&t, l->op, 14, lstm ? 8 : 6, lstm ? 3 : 2);
    set_attributes(l, &t, acts);
    for (int i = 0; i < 8; i++)
        if (src[i])
            in[i] = as(type, src[i], n[i]);
    const int64_t s0 = l->batch_first ? B : D, s1 = l->batch_first ? D : B;
    test_node_input(&t, 0, type, 3, l->batch_first
                                        ? (int64_t[]){ B, T, l->i }
                                        : (int64_t[]){ T, B, l->i }, in[0]);
    test_node_input(&t, 1, type, 3, (int64_t[]){ D, G * H, l->i }, in[1]);
    test_node_input(&t, 2, type, 3, (int64_t[]){ D, G * H, H }, in[2]);
    if (l->bias)
        test_node_input(&t, 3, type, 2, (int64_t[]){ D, 2 * G * H }, in[3]);
    if (l->lens)
        test_node_input(&t, 4, QN_I32, 1, &B, q.lens);
    if (l->h0)
        test_node_input(&t, 5, type, 3, (int64_t[]){ s0, s1, H }, in[5]);
    if (l->c0)
        test_node_input(&t, 6, type, 3, (int64_t[]){ s0, s1, H }, in[6]);
    if (l->peep)
        test_node_input(&t, 7, type, 2, (int64_t[]){ D, 3 * H }, in[7]);
    for (int packed = 0; packed < 2; packed++) {
        qn_status st = packed ? test_node_run_packed(&t, 6) : test_node_run(&t);
        if (st != QN_OK)
            fail_msg("%s: %s", l->name, t.err.text);
        expect(l, &t, 0, q.y, T * D * B * H);
        expect(l, &t, 1, q.yh, n[5]);
        if (lstm)
            expect(l, &t, 2, q.yc, n[5]);
    }
    test_node_release(&t);
    for (int i = 0; i < 8; i++)
        free(src[i]), free(in[i]);
    free(q.y), free(q.yh), free(q.yc);
}

static void test_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        run(&layers[i], QN_F32);
        run(&layers[i], QN_F64);
        run(&layers[i], QN_F16);
    }
}

/* A sequence's bits do not depend on those beside it. */
static void test_batch_invariant(void **state)
{
    enum { T = 9, B = 7, I = 30, H = 50 };
    (void)state;
    seed = 5;
    double *x = numbers(T * B * I), *w = numbers(4 * H * I);
    double *r = numbers(4 * H * H);
    float *fx = as(QN_F32, x, T * B * I), *fw = as(QN_F32, w, 4 * H * I);
    float *fr = as(QN_F32, r, 4 * H * H), whole[B * T * H];
    for (int i = 0; i < T * B * I; i++)
        fx[i] *= 1.7f;
    for (int64_t b = B; b > 0; b--) {
        test_node t;
        test_node_init(&t, "LSTM", 14, 3, 1);
        test_node_int(&t, "layout", 1);
        test_node_input(&t, 0, QN_F32, 3, (int64_t[]){ b, T, I }, fx);
        test_node_input(&t, 1, QN_F32, 3, (int64_t[]){ 1, 4 * H, I }, fw);
        test_node_input(&t, 2, QN_F32, 3, (int64_t[]){ 1, 4 * H, H }, fr);
        assert_int_equal(test_node_run(&t), QN_OK);
        if (b == B)
            memcpy(whole, t.out[0].data, sizeof whole);
        if (memcmp(whole, t.out[0].data, (size_t)b * T * H * sizeof *whole))
            fail_msg("%lld sequences: other bits", (long long)b);
        test_node_release(&t);
    }
    free(x), free(w), free(r), free(fx), free(fw), free(fr);
}

static const struct {
    const char *op;
    int64_t w[3], r[3], bias[2];
    int32_t len;
    const char *direction;
    int64_t hidden;
    qn_status status;
    const char *says;
} bad[] = {
    { "LSTM", { 1, 8, 3 }, { 1, 8, 2 }, { 1, 16 }, 2, "sideways", 2, QN_INVALID,
      "'sideways'" },
    { "LSTM", { 1, 8, 4 }, { 1, 8, 2 }, { 1, 16 }, 2, "forward", 2, QN_SHAPE,
      "input 1 is [1, 8, 4], expected [1, 8, 3]" },
    { "LSTM", { 1, 8, 3 }, { 2, 8, 2 }, { 1, 16 }, 2, "forward", 2, QN_SHAPE,
      "input 2 is [2, 8, 2]" },
    { "GRU", { 1, 6, 3 }, { 1, 6, 2 }, { 1, 16 }, 2, "forward", 2, QN_SHAPE,
      "expected [1, 12]" },
    { "GRU", { 1, 6, 3 }, { 1, 6, 2 }, { 1, 12 }, 2, "forward", 5, QN_INVALID,
      "hidden_size is 5" },
    { "RNN", { 1, 2, 3 }, { 1, 2, 2 }, { 1, 4 }, 3, "forward", 2, QN_RANGE,
      "sequence_lens[0] is 3" },
    { "RNN", { 1, 2, 3 }, { 1, 2, 2 }, { 1, 4 }, -1, "forward", 2, QN_RANGE,
      "expected 0 to 2" },
};

static void test_rejects(void **state)
{
    static const float zeros[128];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_node t;
        test_node_init(&t, bad[i].op, 14, 5, 1);
        test_node_string(&t, "direction", bad[i].direction);
        test_node_int(&t, "hidden_size", bad[i].hidden);
        test_node_input(&t, 0, QN_F32, 3, (int64_t[]){ 2, 1, 3 }, zeros);
        test_node_input(&t, 1, QN_F32, 3, bad[i].w, zeros);
        test_node_input(&t, 2, QN_F32, 3, bad[i].r, zeros);
        test_node_input(&t, 3, QN_F32, 2, bad[i].bias, zeros);
        test_node_input(&t, 4, QN_I32, 1, (int64_t[]){ 1 }, &bad[i].len);
        if (test_node_run(&t) != bad[i].status ||
            !strstr(t.err.text, bad[i].says))
            fail_msg("row %zu: \"%s\"", i, t.err.text);
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_batch_invariant),
        cmocka_unit_test(test_rejects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
