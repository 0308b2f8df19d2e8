/* SPDX-License-Identifier: Apache-2.0 */
/* Cast, CastLike, BitCast. Numbers go through qn_convert(), in pieces on any
 * thread; strings one after the other, as the request's heap wants it. */
#include "runtime/cpu/cast.h"

#include "runtime/cpu/tables.h"

#include <string.h>

enum { GRAIN = 1 << 15 };

static qn_convert_how how_of(const qn_node *node)
{
    const char *round = qn_node_string(node, "round_mode", "up");
    return (qn_convert_how){
        .wrap = !qn_node_int(node, "saturate", 1),
        .round = !strcmp(round, "down")      ? QN_ROUND_DOWN
                 : !strcmp(round, "nearest") ? QN_ROUND_NEAREST
                                             : QN_ROUND_UP,
    };
}

typedef struct job {
    qn_dtype from, to;
    const char *src;
    char *dst;
    qn_convert_how how;
} job;

static void piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    (void)thread;
    qn_convert(j->from, j->src + (size_t)begin * qn_dtype_size(j->from), j->to,
               j->dst + (size_t)begin * qn_dtype_size(j->to), end - begin,
               &j->how);
}

static qn_status print_all(const qn_launch *k)
{
    const qn_tensor *x = &k->in[0];
    qn_string *y = k->out[0].data;
    const char *at = x->data;
    for (int64_t i = 0, n = qn_count(x); i < n; i++) {
        char text[QN_CAST_TEXT];
        size_t len = qn_cast_print(x->dtype, at, text);
        qn_status st = qn_string_put(k->strings, text, len, &y[i], k->err);
        if (st != QN_OK)
            return st;
        at += qn_dtype_size(x->dtype);
    }
    return QN_OK;
}

static qn_status parse_all(const qn_launch *k)
{
    const qn_string *x = k->in[0].data;
    char *at = k->out[0].data;
    qn_dtype to = k->out[0].dtype;
    qn_convert_how how = how_of(k->node);
    for (int64_t i = 0, n = qn_count(&k->in[0]); i < n; i++) {
        const char *s = qn_string_bytes(k->strings, x[i]);
        qn_error why = { 0 };
        qn_status st = qn_cast_parse(s, x[i].len, to, at, &how, &why);
        if (st != QN_OK) {
            st = qn_launch_fail(k, st, "index %lld: %s", (long long)i,
                                why.text);
            qn_error_index(k->err, i);
            return st;
        }
        at += qn_dtype_size(to);
    }
    return QN_OK;
}

static qn_status launch_cast(const qn_launch *k)
{
    const qn_tensor *x = &k->in[0];
    qn_tensor *y = &k->out[0];
    if (x->dtype == QN_STRING && y->dtype != QN_STRING)
        return parse_all(k);
    if (y->dtype == QN_STRING && x->dtype != QN_STRING)
        return print_all(k);
    job j = { x->dtype, y->dtype, x->data, y->data, how_of(k->node) };
    qn_parallel(k->team, qn_count(x), GRAIN, piece, &j);
    return QN_OK;
}

static qn_status launch_bits(const qn_launch *k)
{
    const qn_tensor *x = &k->in[0];
    qn_tensor *y = &k->out[0];
    int64_t n = qn_count(x);
    if (n && y->data != x->data)
        memcpy(y->data, x->data, (size_t)n * qn_dtype_size(x->dtype));
    qn_settle(y->dtype, y->data, n);
    return QN_OK;
}

static const qn_kernel rows[] = {
    { .name = "Cast", .domain = "", .since = 1, .until = UINT16_MAX,
      .launch = launch_cast },
    { .name = "CastLike", .domain = "", .since = 15, .until = UINT16_MAX,
      .launch = launch_cast },
    { .name = "BitCast", .domain = "", .since = 26, .until = UINT16_MAX,
      .launch = launch_bits },
};

QN_KERNEL_TABLE(qn_cpu_cast, rows);
