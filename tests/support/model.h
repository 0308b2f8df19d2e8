/* SPDX-License-Identifier: Apache-2.0 */
/* Load models that a test has written (tests/support/pb.h), or fail it. */
#ifndef QN_TESTS_SUPPORT_MODEL_H
#define QN_TESTS_SUPPORT_MODEL_H

#include "models/model.h"
#include "tests/support/pb.h"

/* Element types by their ONNX numbers, short. */
enum {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    I32 = 6,
    I64 = 7,
    STR = 8,
    BOOL = 9,
    F16 = 10,
    F64 = 11,
    U64 = 13,
    C64 = 14,
    U4 = 21,
    I4 = 22,
    I2 = 26
};

typedef struct loaded {
    pb model;
    qn_model_file *file;
    qn_graph *graph;
    qn_error err;
} loaded;

/* These take the model. */
qn_status load(loaded *l, pb *model);
void must_load(loaded *l, pb *model);
/* The status, and a part of the error's text. */
void must_refuse(pb *model, qn_status want, const char *says);
void unload(loaded *l);

/* The first value of that name; fails the test if there is none. */
const qn_value *find_value(const qn_graph *g, const char *name);

/* y = Identity(x), float [N, 2]. */
pb identity_graph(void);

#endif
