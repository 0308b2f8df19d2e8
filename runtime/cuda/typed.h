/* SPDX-License-Identifier: Apache-2.0 */
/* Device functions that exist once for each element type. */
#ifndef QN_CUDA_TYPED_H
#define QN_CUDA_TYPED_H

#include "runtime/cuda/walk.h"

/* The function `base`_`qn_cuda_suffix()` of a family, as qn_cuda_find().
 * prepare() only. */
QN_NODISCARD qn_status qn_cuda_find_typed(qn_accel *accel, const char *family,
                                          const char *base, qn_dtype dtype,
                                          const qn_cuda_fn **out,
                                          qn_error *err);

/* `size` zeroed bytes in the plan's region, which p->state then points at.
 * QN_NO_MEMORY. */
QN_NODISCARD qn_status qn_cuda_state(qn_prepare *p, size_t size, void *out,
                                     qn_error *err);

#endif
