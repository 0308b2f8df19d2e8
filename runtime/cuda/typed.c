/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/typed.h"

#include <stdio.h>
#include <string.h>

qn_status qn_cuda_find_typed(qn_accel *accel, const char *family,
                             const char *base, qn_dtype dtype,
                             const qn_cuda_fn **out, qn_error *err)
{
    char name[64];
    const char *suffix = qn_cuda_suffix(dtype);
    *out = NULL;
    if (!suffix)
        return qn_fail(err, QN_INTERNAL, "%s has no function for %s", family,
                       qn_dtype_name(dtype));
    snprintf(name, sizeof name, "%s_%s", base, suffix);
    return qn_cuda_find(accel, family, name, out, err);
}

qn_status qn_cuda_state(qn_prepare *p, size_t size, void *out, qn_error *err)
{
    void *state = qn_region_alloc(p->region, 1, size);
    if (!state)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a kernel's state");
    p->state = state;
    memcpy(out, &state, sizeof state);
    return QN_OK;
}
