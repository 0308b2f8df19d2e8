/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills. From and to host memory that is not pinned they are over
 * when the call returns, as documented; everything else is a stream's work. */
#include "tests/cuda/emu/internal.h"

#include <string.h>

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

static void run_copy(void *arg)
{
    const struct copy *c = arg;
    memmove(c->to, c->from, c->bytes);
}

enum side { DEVICE_SIDE, HOST_SIDE, EITHER_SIDE };

/* Can this end take part? *pageable is set if it is plain host memory. */
static bool check_side(const void *p, size_t bytes, enum side side,
                       bool *pageable)
{
    struct range r;
    if (range_usable(p, bytes, &r)) {
        bool host = r.kind == RANGE_PINNED || r.kind == RANGE_REGISTERED;
        return side != HOST_SIDE || host;
    }
    if (side == DEVICE_SIDE || !p || range_overlaps(p, bytes, ~0u))
        return false;
    *pageable = true;
    return true;
}

static CUresult copy(const char *what, const void *to, enum side to_side,
                     const void *from, enum side from_side, size_t bytes,
                     CUstream stream, bool sync)
{
    struct CUstream_st *s;
    bool pageable = false;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS || bytes == 0)
        return r;
    if (!check_side(to, bytes, to_side, &pageable) ||
        !check_side(from, bytes, from_side, &pageable))
        return CUDA_ERROR_INVALID_VALUE;
    if (pageable && stream_captured(s))
        return capture_conflict(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    struct copy c = { NULL, from, bytes };
    memcpy(&c.to, &to, sizeof to);
    struct op *op = op_new(QN_EMU_COPY, what, run_copy, &c, sizeof c);
    op->keeps_arg = true;
    r = stream_op(s, op);
    if (r != CUDA_SUCCESS || !(sync || pageable))
        return r;
    stream_sync(s);
    return sticky_of(s->context);
}

#define AT(device) ((const void *)(uintptr_t)(device))

API cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                      CUstream stream)
{
    ENTER("cuMemcpyHtoDAsync", CONTEXT);
    return copy("cuMemcpyHtoDAsync", AT(to), DEVICE_SIDE, from, HOST_SIDE,
                bytes, stream, false);
}

API cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER("cuMemcpyDtoHAsync", CONTEXT);
    return copy("cuMemcpyDtoHAsync", to, HOST_SIDE, AT(from), DEVICE_SIDE,
                bytes, stream, false);
}

API cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                      CUstream stream)
{
    ENTER("cuMemcpyDtoDAsync", CONTEXT);
    return copy("cuMemcpyDtoDAsync", AT(to), DEVICE_SIDE, AT(from),
                DEVICE_SIDE, bytes, stream, false);
}

API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                  CUstream stream)
{
    ENTER("cuMemcpyAsync", CONTEXT);
    return copy("cuMemcpyAsync", AT(to), EITHER_SIDE, AT(from), EITHER_SIDE,
                bytes, stream, false);
}

API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes, CUstream stream)
{
    ENTER("cuMemcpyPeerAsync", CONTEXT);
    struct range r;
    if (!to_context || !from_context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes && (!range_usable(AT(to), bytes, &r) ||
                  r.device != to_context->device ||
                  !range_usable(AT(from), bytes, &r) ||
                  r.device != from_context->device))
        return CUDA_ERROR_INVALID_VALUE;
    return copy("cuMemcpyPeerAsync", AT(to), DEVICE_SIDE, AT(from),
                DEVICE_SIDE, bytes, stream, false);
}

API cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    ENTER("cuMemcpyHtoD", CONTEXT | UNSAFE);
    return copy("cuMemcpyHtoD", AT(to), DEVICE_SIDE, from, HOST_SIDE, bytes,
                NULL, true);
}

API cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    ENTER("cuMemcpyDtoH", CONTEXT | UNSAFE);
    return copy("cuMemcpyDtoH", to, HOST_SIDE, AT(from), DEVICE_SIDE, bytes,
                NULL, true);
}

API cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER("cuMemcpyDtoD", CONTEXT | UNSAFE);
    return copy("cuMemcpyDtoD", AT(to), DEVICE_SIDE, AT(from), DEVICE_SIDE,
                bytes, NULL, true);
}

API cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER("cuMemcpy", CONTEXT | UNSAFE);
    return copy("cuMemcpy", AT(to), EITHER_SIDE, AT(from), EITHER_SIDE, bytes,
                NULL, true);
}

/* --- fills */

struct fill {
    void *to;
    size_t n;
    uint32_t value, width;
};

static void run_fill(void *arg)
{
    const struct fill *f = arg;
    char *to = f->to;
    if (f->width == 1) {
        memset(to, (int)f->value, f->n);
        return;
    }
    for (size_t i = 0; i < f->n; i++)
        memcpy(to + i * f->width, &f->value, f->width);
}

static CUresult fill(const char *what, CUdeviceptr to, uint32_t value,
                     uint32_t width, size_t n, CUstream stream, bool sync)
{
    struct CUstream_st *s;
    size_t bytes;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS || n == 0)
        return r;
    if (to % width != 0 || __builtin_mul_overflow(n, width, &bytes) ||
        !range_usable(AT(to), bytes, NULL))
        return CUDA_ERROR_INVALID_VALUE;
    struct fill f = { (void *)(uintptr_t)to, n, value, width };
    struct op *op = op_new(QN_EMU_COPY, what, run_fill, &f, sizeof f);
    op->keeps_arg = true;
    r = stream_op(s, op);
    if (r != CUDA_SUCCESS || !sync)
        return r;
    stream_sync(s);
    return sticky_of(s->context);
}

API cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream stream)
{
    ENTER("cuMemsetD8Async", CONTEXT);
    return fill("cuMemsetD8Async", to, v, 1, n, stream, false);
}

API cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n,
                     CUstream stream)
{
    ENTER("cuMemsetD16Async", CONTEXT);
    return fill("cuMemsetD16Async", to, v, 2, n, stream, false);
}

API cuMemsetD32Async(CUdeviceptr to, unsigned int v, size_t n, CUstream stream)
{
    ENTER("cuMemsetD32Async", CONTEXT);
    return fill("cuMemsetD32Async", to, v, 4, n, stream, false);
}

API cuMemsetD8(CUdeviceptr to, unsigned char v, size_t n)
{
    ENTER("cuMemsetD8", CONTEXT | UNSAFE);
    return fill("cuMemsetD8", to, v, 1, n, NULL, true);
}

API cuMemsetD16(CUdeviceptr to, unsigned short v, size_t n)
{
    ENTER("cuMemsetD16", CONTEXT | UNSAFE);
    return fill("cuMemsetD16", to, v, 2, n, NULL, true);
}

API cuMemsetD32(CUdeviceptr to, unsigned int v, size_t n)
{
    ENTER("cuMemsetD32", CONTEXT | UNSAFE);
    return fill("cuMemsetD32", to, v, 4, n, NULL, true);
}
