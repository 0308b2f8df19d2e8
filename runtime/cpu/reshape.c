/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout, the only member of the reshape family with a launch. In inference
 * the output is the input and the mask is all ones. In training mode the mask
 * is uniform(0, 1) >= ratio, and what is kept is scaled by 1 / (1 - ratio). The
 * generator is MT19937 with the seed of the node (0 where it has none), drawing
 * 53-bit uniforms in element order, which is what NumPy's RandomState does: so
 * results are repeatable, and comparable with a reference.
 *
 * M. Matsumoto, T. Nishimura: Mersenne Twister, ACM TOMACS 8 (1998).
 */
#include "runtime/base/half.h"
#include "runtime/cpu/strided.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

enum { MT_N = 624, MT_M = 397 };

typedef struct twister {
    uint32_t s[MT_N];
    int at;
} twister;

static void twister_seed(twister *t, uint32_t seed)
{
    t->s[0] = seed;
    for (uint32_t i = 1; i < MT_N; i++)
        t->s[i] = 1812433253u * (t->s[i - 1] ^ (t->s[i - 1] >> 30)) + i;
    t->at = MT_N;
}

static uint32_t twister_next(twister *t)
{
    if (t->at == MT_N) {
        for (int i = 0; i < MT_N; i++) {
            uint32_t y = (t->s[i] & 0x80000000u) |
                         (t->s[(i + 1) % MT_N] & 0x7fffffffu);
            t->s[i] = t->s[(i + MT_M) % MT_N] ^ (y >> 1) ^
                      ((y & 1u) ? 0x9908b0dfu : 0);
        }
        t->at = 0;
    }
    uint32_t y = t->s[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static double twister_uniform(twister *t)
{
    uint32_t high = twister_next(t) >> 5, low = twister_next(t) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

static qn_status scale_kept(const qn_launch *k, int64_t i, bool keep,
                            double scale)
{
    const void *in = k->in[0].data;
    void *out = k->out[0].data;
    switch (k->in[0].dtype) {
    case QN_F32: {
        float v = ((const float *)in)[i];
        ((float *)out)[i] = keep ? (float)((double)v * scale) : 0.0f;
        return QN_OK;
    }
    case QN_F64: {
        double v = ((const double *)in)[i];
        ((double *)out)[i] = keep ? v * scale : 0.0;
        return QN_OK;
    }
    case QN_F16: {
        double v = (double)qn_f16_to_f32(((const uint16_t *)in)[i]);
        ((uint16_t *)out)[i] = keep ? qn_f64_to_f16(v * scale) : 0;
        return QN_OK;
    }
    case QN_BF16: {
        double v = (double)qn_bf16_to_f32(((const uint16_t *)in)[i]);
        ((uint16_t *)out)[i] = keep ? qn_f64_to_bf16(v * scale) : 0;
        return QN_OK;
    }
    default:
        return qn_launch_fail(k, QN_UNSUPPORTED, "training mode for %s",
                              qn_dtype_name(k->in[0].dtype));
    }
}

static qn_status drop(const qn_launch *k, double ratio)
{
    uint8_t *mask = k->n_out > 1 ? k->out[1].data : NULL;
    int64_t n = qn_count(&k->in[0]);
    double scale = 1.0 / (1.0 - ratio);
    twister t;
    twister_seed(&t, (uint32_t)qn_node_int(k->node, "seed", 0));
    for (int64_t i = 0; i < n; i++) {
        bool keep = twister_uniform(&t) >= ratio;
        qn_status st = scale_kept(k, i, keep, scale);
        if (st != QN_OK)
            return st;
        if (mask)
            mask[i] = keep;
    }
    return QN_OK;
}

static qn_status keep_all(const qn_launch *k)
{
    static const struct {
        qn_dtype dtype;
        uint64_t one; /* little-endian bits */
    } ones[] = {
        { QN_BOOL, 1 },
        { QN_F16, 0x3c00 },
        { QN_F32, 0x3f800000 },
        { QN_F64, 0x3ff0000000000000 },
    };
    int64_t n = qn_count(&k->in[0]);
    size_t size = qn_dtype_size(k->in[0].dtype);
    if (n && k->out[0].data && k->out[0].data != k->in[0].data)
        memcpy(k->out[0].data, k->in[0].data, (size_t)n * size);
    if (k->n_out < 2 || !k->out[1].data)
        return QN_OK;
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++)
        if (ones[i].dtype == k->out[1].dtype)
            qn_fill(k->out[1].data, &ones[i].one, qn_dtype_size(ones[i].dtype),
                    n);
    return QN_OK;
}

static qn_status launch_dropout(const qn_launch *k)
{
    double ratio = 0.5;
    bool training = k->n_in > 2 && qn_present(&k->in[2]) &&
                    qn_count(&k->in[2]) == 1 && *(const uint8_t *)k->in[2].data;
    if (!training)
        return keep_all(k);
    if (qn_present(&k->in[1])) {
        qn_status st = qn_read_scalar(
            &(qn_infer){ .node = k->node, .n_in = k->n_in, .in = k->in }, 1,
            &ratio, k->err);
        if (st != QN_OK)
            return st;
    }
    if (!(ratio >= 0.0 && ratio < 1.0))
        return qn_launch_fail(k, QN_RANGE, "ratio %g is outside [0, 1)", ratio);
    return ratio > 0.0 ? drop(k, ratio) : keep_all(k);
}

static const qn_kernel rows[] = {
    { .domain = "", .name = "Dropout", .since = 1, .until = QN_OPSET_MAX,
      .launch = launch_dropout },
};

QN_KERNEL_TABLE(qn_cpu_reshape, rows);
