/* SPDX-License-Identifier: Apache-2.0 */
/* Small models whose plans have what schedules are about: branches, attention,
 * steps of the host between steps of a device, branches that depend on data. */
#ifndef QN_TESTS_CUDA_SUPPORT_MODELS_H
#define QN_TESTS_CUDA_SUPPORT_MODELS_H

#include "runtime/graph/graph.h"

enum {
    MODEL_INCEPTION,   /* modules of four branches and a Concat */
    MODEL_TRANSFORMER, /* blocks of attention and two products */
    MODEL_HOST,        /* products of float64 in the middle, on the host */
    MODEL_CONTROL,     /* Ifs by what the device computed */
    MODEL_DYNAMIC,     /* the same, then NonZero and GatherND */
    MODEL_KINDS,
    MODEL_SETS = 4 /* of inputs; two batch sizes, so two plans */
};

/* One input "x" and one or two outputs. `depth`: modules or blocks. The caller
 * owns it. */
qn_graph *model_build(int kind, int depth);
/* Input set number `set`, not only below MODEL_SETS: bit 0 is the batch size less
 * 1, bit 1 + i decides If number i, 256 more are one in the batch more. Data lie in `region`. */
qn_tensor model_input(int kind, int set, qn_region *region);
const char *model_name(int kind);

#endif
