/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/simd/argmax.h"

#define DEFINE(name, BETTER)                                           \
    static void name(float *restrict best, int32_t *restrict at,       \
                     const float *restrict x, int32_t r, int64_t cols) \
    {                                                                  \
        for (int64_t j = 0; j < cols; j++) {                           \
            float v = x[j], b = best[j];                               \
            int better = BETTER;                                       \
            best[j] = better ? v : b;                                  \
            at[j] = better ? r : at[j];                                \
        }                                                              \
    }

/* the first NaN stays; with `last` the last one does */
DEFINE(max_first, (v > b) | ((v != v) & (b == b)))
DEFINE(max_last, (v >= b) | (v != v))
DEFINE(min_first, (v < b) | ((v != v) & (b == b)))
DEFINE(min_last, (v <= b) | (v != v))

const qn_argmax_table QN_ISA_FN(qn_argmax) = {
    .row = { { max_first, max_last }, { min_first, min_last } },
};
