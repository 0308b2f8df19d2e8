/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what a body holds to what a model takes: each of the model's inputs gets
 * its place in the body, a type and a shape. Nothing is decoded but the small
 * inputs that shapes depend on.
 */
#ifndef QN_SERVER_BIND_H
#define QN_SERVER_BIND_H

#include "runtime/exec/session.h"
#include "server/codec/codec.h"

typedef struct qn_bound {
    const qn_io *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    qn_tensor *tensors;        /* [n_inputs]; dtype QN_NONE: left out */
    const qn_scan_data **data; /* [n_inputs]; NULL: left out, or npy */
    size_t string_bytes;       /* of all string inputs, decoded */
    uint32_t n_wanted;
    uint32_t *wanted; /* [n_wanted] outputs to answer, in order */
} qn_bound;

/*
 * A JSON body. Memory from `region`. QN_INVALID: an input or output that the
 * model does not have, or twice, or one that is missing; QN_TYPE: the declared
 * type is not the model's; QN_TOO_LARGE; what qn_decode says for values that
 * shapes depend on.
 */
QN_NODISCARD qn_status qn_bind_scan(const qn_scan *scan, qn_session *session,
                                    qn_region *region, qn_bound *out,
                                    qn_error *err);
/* The same for a single .npy tensor. */
QN_NODISCARD qn_status qn_bind_npy(const qn_npy *npy, qn_session *session,
                                   qn_region *region, qn_bound *out,
                                   qn_error *err);

#endif
