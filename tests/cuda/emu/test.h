/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the emulated driver share: a context, the test kernels,
 * and short ways to get at things. Included by one file of each program. */
#ifndef QN_TESTS_CUDA_EMU_TEST_H
#define QN_TESTS_CUDA_EMU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "tests/cuda/emu/emu.h"
#include "tests/cuda/emu/testkernels.h"

#ifndef QN_EMU_DIR /* by the makefile */
#define QN_EMU_DIR "build/cuda-emu"
#endif

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

static CUcontext context;
static CUmodule module;

static inline CUfunction function(const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

static inline void launch(const char *name, unsigned grid, unsigned block,
                   unsigned shared, CUstream s, struct tk_args *a)
{
    void *params[] = { a };
    OK(cuLaunchKernel(function(name), grid, 1, 1, block, 1, 1, shared, s,
                      params, NULL));
}

static inline void *device_bytes(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    return (void *)p;
}

static inline void *pinned_bytes(size_t bytes)
{
    void *p;
    OK(cuMemHostAlloc(&p, bytes, 0));
    return p;
}

static inline void device_free(void *p)
{
    OK(cuMemFree((CUdeviceptr)p));
}

static inline CUstream stream(void)
{
    CUstream s;
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
    return s;
}

static inline CUevent event(void)
{
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

static inline int open_driver(void **state)
{
    static const char image[] = ".version 9.0"; /* looked at, not used */
    (void)state;
    setenv("QN_EMU_KERNELS", QN_EMU_DIR "/libtestkernels-emu.so", 1);
    setenv("QN_EMU_DEVICES", "2", 1);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, image));
    return 0;
}

static inline unsigned step(unsigned v, unsigned by)
{
    return v * 3u + by;
}

static inline void steps(CUstream s, void *out, int64_t by)
{
    struct tk_args a = { .out = out, .n = 8, .extra = by };
    launch("tk_step", 1, 32, 0, s, &a);
}

#endif
