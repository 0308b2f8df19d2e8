/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN on a device against the cpu. Hidden sizes of up to 8 fit in
 * a block's shared memory; those of 130 (GRU: 160, RNN: 260) go step by step. */
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_OF(rows) (sizeof(rows) / sizeof(rows)[0])

enum { ARGS = 8, ACTS = 6 };

typedef struct rnn_row {
    const char *op, *attrs, *direction;
    const char *acts[ACTS]; /* up to the first NULL */
    float alpha[2];         /* given if acts are */
    float beta[2];
    const char *in[ARGS];   /* up to the first NULL; "" omitted */
    uint32_t n_out;         /* 0: all */
    device_options o;
} rnn_row;

/* T 5, B 3, I 4, H 8 */
#define X "f32 5,3,4"
#define LENS "i32 3: 5 0 2"
/* long sums over saturated gates: the order of adding shows */
#define LOOSE .rtol = 1e-4, .atol = 1e-5

static const rnn_row rows[] = {
    { "RNN", .in = { X, "f32 1,8,4", "f32 1,8,8" } },
    { "RNN", .in = { X, "f32 1,8,4", "f32 1,8,8", "f32 1,16", LENS,
                     "f32 1,3,8" } },
    { "RNN", .direction = "reverse",
      .in = { X, "f32 1,8,4", "f32 1,8,8", "f32 1,16", LENS } },
    { "RNN", .direction = "bidirectional", .acts = { "Relu", "Sigmoid" },
      .in = { X, "f32 2,8,4", "f32 2,8,8", "f32 2,16", LENS, "f32 2,3,8" } },
    { "RNN", .attrs = "clip=0.5", .acts = { "Affine" }, .alpha = { 0.5f },
      .beta = { 0.25f }, .in = { X, "f32 1,8,4", "f32 1,8,8" } },
    { "RNN", .in = { "f32 3,2,4", "f32 1,260,4", "f32 1,260,260" },
      .o = { LOOSE } },
    { "LSTM", .in = { X, "f32 1,32,4", "f32 1,32,8" } },
    { "LSTM", .in = { X, "f32 1,32,4", "f32 1,32,8", "f32 1,64", LENS,
                      "f32 1,3,8", "f32 1,3,8", "f32 1,24" } },
    { "LSTM", .direction = "reverse", .attrs = "clip=1.5 input_forget=1",
      .in = { X, "f32 1,32,4", "f32 1,32,8", "f32 1,64", LENS, "", "f32 1,3,8",
              "f32 1,24" } },
    { "LSTM", .direction = "bidirectional",
      .in = { X, "f32 2,32,4", "f32 2,32,8", "f32 2,64", "", "f32 2,3,8",
              "f32 2,3,8", "f32 2,24" } },
    { "LSTM", .attrs = "layout=1",
      .in = { "f32 3,5,4", "f32 1,32,4", "f32 1,32,8", "f32 1,64", LENS,
              "f32 3,1,8", "f32 3,1,8" } },
    { "LSTM", .attrs = "layout=1", .direction = "bidirectional",
      .in = { "f32 3,5,4", "f32 2,32,4", "f32 2,32,8", "f32 2,64", LENS,
              "f32 3,2,8", "f32 3,2,8" } },
    { "LSTM", .acts = { "HardSigmoid", "Elu", "Softsign" },
      .alpha = { 0.3f, 0.7f }, .beta = { 0.4f },
      .in = { X, "f32 1,32,4", "f32 1,32,8", "f32 1,64" } },
    { "LSTM", .acts = { "Softplus", "ScaledTanh", "LeakyRelu" },
      .alpha = { 0.3f, 0.7f }, .beta = { 0.4f },
      .in = { X, "f32 1,32,4", "f32 1,32,8", "f32 1,64" } },
    { "LSTM", .n_out = 1, .in = { X, "f32 1,32,4", "f32 1,32,8" } },
    { "LSTM", .in = { "f32 3,5,4", "f32 1,520,4", "f32 1,520,130",
                      "f32 1,1040", "i32 5: 3 1 0 2 3", "f32 1,5,130",
                      "f32 1,5,130", "f32 1,390" },
      .o = { LOOSE } },
    { "LSTM", .direction = "bidirectional",
      .in = { "f32 2,2,3", "f32 2,520,3", "f32 2,520,130" }, .o = { LOOSE } },
    { "GRU", .in = { X, "f32 1,24,4", "f32 1,24,8" } },
    { "GRU", .in = { X, "f32 1,24,4", "f32 1,24,8", "f32 1,48", LENS,
                     "f32 1,3,8" } },
    { "GRU", .attrs = "linear_before_reset=1",
      .in = { X, "f32 1,24,4", "f32 1,24,8", "f32 1,48", LENS, "f32 1,3,8" } },
    { "GRU", .attrs = "linear_before_reset=1 layout=1 clip=2.0",
      .direction = "bidirectional",
      .in = { "f32 3,5,4", "f32 2,24,4", "f32 2,24,8", "f32 2,48", LENS,
              "f32 3,2,8" } },
    { "GRU", .direction = "reverse", .acts = { "Sigmoid", "ThresholdedRelu" },
      .alpha = { 0.1f },
      .in = { X, "f32 1,24,4", "f32 1,24,8", "f32 1,48", LENS } },
    { "GRU", .direction = "bidirectional",
      .in = { "f32 3,5,4", "f32 2,480,4", "f32 2,480,160", "f32 2,960",
              "i32 5: 3 1 0 2 3", "f32 2,5,160" },
      .o = { LOOSE } },
    { "GRU", .attrs = "linear_before_reset=1",
      .in = { "f32 3,2,4", "f32 1,480,4", "f32 1,480,160", "f32 1,960" },
      .o = { LOOSE } },
    /* other types, views, nothing */
    { "LSTM", .in = { "f64 5,3,4", "f64 1,32,4", "f64 1,32,8", "f64 1,64",
                      LENS, "f64 1,3,8", "f64 1,3,8", "f64 1,24" } },
    { "GRU", .in = { "f64 2,2,4", "f64 1,300,4", "f64 1,300,100" },
      .o = { .rtol = 1e-10, .atol = 1e-10 } },
    { "GRU", .in = { "f16 5,3,4", "f16 1,24,4", "f16 1,24,8", "f16 1,48", LENS,
                     "f16 1,3,8" } },
    { "LSTM", .direction = "bidirectional",
      .in = { "f16 2,3,4", "f16 2,32,4", "f16 2,32,8", "f16 2,64" } },
    { "LSTM", .in = { "f16 2,2,3", "f16 1,520,3", "f16 1,520,130" } },
    { "RNN", .in = { X, "f32 1,8,4", "f32 1,8,8", "f32 1,16", LENS,
                     "f32 1,3,8" }, .o = { .shift = 1 } },
    { "LSTM", .in = { "f32 0,3,4", "f32 1,32,4", "f32 1,32,8", "", "",
                      "f32 1,3,8" } },
    { "LSTM", .in = { "f32 5,0,4", "f32 1,32,4", "f32 1,32,8" } },
    { "GRU", .in = { "f32 5,3,0", "f32 1,24,0", "f32 1,24,8", "f32 1,48" } },
    { "GRU", .in = { "f32 0,3,4", "f32 1,480,4", "f32 1,480,160", "", "",
                     "f32 1,3,160" } },
    { "LSTM", .in = { X, "f32 1,32,4", "f32 1,32,8" },
      .o = { .precision = QN_PRECISION_FP16 } },
    { "RNN", .in = { X, "f32 1,8,4", "f32 1,8,8", "", "i32 3: 5 6 1" },
      .o = { .faults = true } },
    { "RNN", .in = { "f32 5,3,4", "f32 1,260,4", "f32 1,260,260", "",
                     "i32 3: 5 -1 1" },
      .o = { .faults = true } },
};

/* More rows of the batch than there are multiprocessors: several to a block. */
static const rnn_row many[] = {
    { "LSTM", .in = { "f32 2,700,3", "f32 1,16,3", "f32 1,16,4", "f32 1,32" } },
    { "GRU", .direction = "bidirectional",
      .in = { "f32 2,301,3", "f32 2,12,3", "f32 2,12,4", "f32 2,24" } },
};

static uint32_t list_of(const char *const *list, uint32_t most)
{
    uint32_t n = 0;
    while (n < most && list[n])
        n++;
    return n;
}

static void add_acts(test_node *t, const rnn_row *r, qn_text *texts)
{
    const uint32_t n = list_of(r->acts, ACTS);
    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++)
        texts[i] = (qn_text){ r->acts[i], strlen(r->acts[i]) };
    test_node_floats(t, "activation_alpha", 2, r->alpha);
    test_node_floats(t, "activation_beta", 2, r->beta);
    t->attrs[t->node.n_attrs++] = (qn_attr){
        .name = "activations", .kind = QN_ATTR_STRINGS, .n = n,
        .strings = texts };
}

static void run(const rnn_row *r, size_t i)
{
    const uint32_t n = list_of(r->in, ARGS);
    const uint32_t outs = !strcmp(r->op, "LSTM") ? 3 : 2;
    qn_text texts[ACTS];
    char name[64];
    test_node t = { 0 };
    snprintf(name, sizeof name, "row %zu, %s %s", i, r->op, r->in[0]);
    test_node_init(&t, r->op, 14, n, r->n_out ? r->n_out : outs);
    test_node_attrs(&t, r->attrs);
    if (r->direction)
        test_node_string(&t, "direction", r->direction);
    add_acts(&t, r, texts);
    for (uint32_t k = 0; k < n; k++)
        t.in[k] = test_row_tensor(&t.region, r->in[k]);
    /* eighths: gates that are not all saturated */
    for (uint32_t k = 1; k < n && k < 3; k++)
        for (int64_t e = 0; e < qn_count(&t.in[k]); e++)
            if (t.in[k].dtype == QN_F32)
                ((float *)t.in[k].data)[e] /= 8;
    device_node_run(&t, &r->o, name);
    test_node_release(&t);
}

static void test_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(rows); i++)
        run(&rows[i], i);
}

static void test_large_batch(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(many); i++)
        run(&many[i], i);
}

/* One launch for a small layer; one a step, and two, for large ones. */
static void test_ways(void **state)
{
    static const struct {
        rnn_row row;
        const char *ran;
        uint64_t times;
    } ways[] = {
        { { "LSTM", .in = { X, "f32 1,32,4", "f32 1,32,8" } },
          "layer_lstm_f32", 1 },
        { { "LSTM", .in = { X, "f32 1,520,4", "f32 1,520,130" },
            .o = { LOOSE } }, "step_lstm_f32", 5 },
        { { "GRU", .in = { X, "f32 1,480,4", "f32 1,480,160" },
            .o = { LOOSE } }, "step_gru_f32", 10 },
        { { "GRU", .attrs = "linear_before_reset=1",
            .in = { X, "f32 1,480,4", "f32 1,480,160" }, .o = { LOOSE } },
          "step_gru_f32", 5 },
    };
    (void)state;
    if (!library_reset())
        skip();
    for (size_t i = 0; i < N_OF(ways); i++) {
        library_reset();
        run(&ways[i].row, i);
        if (library_count(ways[i].ran) != ways[i].times ||
            library_count("cublasLtMatmul") != 1)
            fail_msg("row %zu: %s ran %llu times, cuBLASLt %llu times", i,
                     ways[i].ran, (unsigned long long)library_count(ways[i].ran),
                     (unsigned long long)library_count("cublasLtMatmul"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_large_batch),
        cmocka_unit_test(test_ways),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
