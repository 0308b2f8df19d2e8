/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values in more than one memory. A value lies where its producer runs; who
 * reads it elsewhere reads a twin there. Twins of constants and of known values
 * are laid out with the device's own; others are copied by a step, once.
 */
#include "runtime/plan/build.h"

/* The device that moves the bytes: the target, or the source if that is the
 * host. */
static void set_copy_space(qn_builder *b, uint32_t step)
{
    qn_bstep *s = &b->steps[step];
    uint8_t from = b->values[s->in[0]].space, to = b->values[s->out[0]].space;
    s->space = to ? to : from;
    s->dynamic = b->values[s->in[0]].dynamic || b->values[s->out[0]].dynamic;
}

qn_status qn_build_copy(qn_builder *b, uint32_t from, uint32_t to)
{
    uint32_t step;
    qn_status st = qn_build_add_step(b, QN_STEP_COPY, NULL, 1, 1, &step);
    if (st == QN_OK) {
        b->steps[step].in[0] = from;
        b->steps[step].out[0] = to;
        set_copy_space(b, step);
    }
    return st;
}

void qn_build_retarget(qn_builder *b, uint32_t step, uint32_t to)
{
    b->steps[step].out[0] = to;
    set_copy_space(b, step);
    b->steps[step].dynamic = b->values[to].dynamic;
}

qn_status qn_build_in_space(qn_builder *b, uint32_t id, uint8_t space,
                            uint32_t *out)
{
    *out = id;
    if (id == QN_NO_VALUE || b->values[id].space == space)
        return QN_OK;
    for (uint32_t t = b->values[id].twin; t != QN_NO_VALUE;
         t = b->values[t].twin)
        if (b->values[t].space == space) {
            *out = t;
            return QN_OK;
        }
    qn_bvalue twin = b->values[id];
    bool copied = twin.kind == QN_BV_STEP || twin.kind == QN_BV_INPUT;
    twin.space = space;
    if (copied) {
        twin.kind = QN_BV_STEP;
        twin.data = NULL;
    }
    qn_status st = qn_build_add_value(b, &twin, out);
    if (st != QN_OK)
        return st;
    b->values[*out].twin = b->values[id].twin;
    b->values[id].twin = *out;
    return copied ? qn_build_copy(b, id, *out) : QN_OK;
}

void qn_build_forget_twins(qn_builder *b, uint32_t n_values)
{
    for (uint32_t v = 0; v < n_values; v++)
        while (b->values[v].twin != QN_NO_VALUE && b->values[v].twin >= n_values)
            b->values[v].twin = b->values[b->values[v].twin].twin;
}
