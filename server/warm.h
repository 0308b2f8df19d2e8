/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes that a model may leave open, found by trying: the first one for which
 * a request of made-up values can be planned, and better still run. Loading
 * uses it to warm the model up, the example to be one that works.
 */
#ifndef QN_SERVER_WARM_H
#define QN_SERVER_WARM_H

#include "runtime/exec/session.h"

typedef struct qn_open {
    int64_t size; /* of every open dimension ... */
    bool batch;   /* ... the outermost of an input too; else that is 1 */
} qn_open;

/* The input's shape with its open sizes filled in; an unknown rank is 0. */
void qn_open_shape(const qn_io *io, qn_open open, qn_shape *out);

/* What made-up elements of an input are: 1 where shapes depend on them. */
int qn_open_value(const qn_io *io);

/*
 * Try, smallest first; *out is the size that ran, or at least could be planned,
 * or 1. *run_ns is the time of the launches of the run, 0 if none succeeded.
 * A model that rejects made-up values is no worse for it: no error is given.
 * Blocks for as long as planning and running take.
 */
void qn_warm(qn_session *session, qn_open *out, uint64_t *run_ns);

#endif
