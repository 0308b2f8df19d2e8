/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions. cuda.h maps many to a name with a version, and those are
 * what a client has to look up: in the real library the plain name is the
 * function of long ago, with other types. Here those end the process. Where
 * the old one has the same types, the plain name works.
 *
 * This file does not include cuda.h, whose macros would rename all of it. */
#include <dlfcn.h>
#include <string.h>

#include "tests/cuda/emu/emu.h"

/* name, name with version, first version of CUDA with that */
#define OLD_TYPES(X) \
    X(cuDeviceTotalMem, _v2, 3020) \
    X(cuMemGetInfo, _v2, 3020) \
    X(cuMemAlloc, _v2, 3020) \
    X(cuMemFree, _v2, 3020) \
    X(cuMemAllocHost, _v2, 3020) \
    X(cuMemHostGetDevicePointer, _v2, 3020) \
    X(cuMemGetAddressRange, _v2, 3020) \
    X(cuMemcpyHtoD, _v2, 3020) \
    X(cuMemcpyDtoH, _v2, 3020) \
    X(cuMemcpyDtoD, _v2, 3020) \
    X(cuMemcpyHtoDAsync, _v2, 3020) \
    X(cuMemcpyDtoHAsync, _v2, 3020) \
    X(cuMemcpyDtoDAsync, _v2, 3020) \
    X(cuMemsetD8, _v2, 3020) \
    X(cuMemsetD16, _v2, 3020) \
    X(cuMemsetD32, _v2, 3020) \
    X(cuStreamBeginCapture, _v2, 10010) \
    X(cuGraphInstantiate, WithFlags, 11040)

#define SAME_TYPES(X) \
    X(cuCtxPushCurrent, _v2, 4000) \
    X(cuCtxPopCurrent, _v2, 4000) \
    X(cuStreamDestroy, _v2, 4000) \
    X(cuEventDestroy, _v2, 4000) \
    X(cuEventElapsedTime, _v2, 12080) \
    X(cuMemHostRegister, _v2, 6050) \
    X(cuDevicePrimaryCtxRelease, _v2, 11000) \
    X(cuDevicePrimaryCtxSetFlags, _v2, 11000) \
    X(cuDeviceGetUuid, _v2, 11040)

#define EXPORT __attribute__((visibility("default")))

#define REPORT(name, suffix, version) \
    EXPORT void name(void); \
    void name(void) \
    { \
        qn_emu_report(#name " is the function of before CUDA %d.%d; look up " \
                            #name #suffix, \
                      version / 1000, version % 1000 / 10); \
    }
OLD_TYPES(REPORT)

/* a jump, so that arguments pass through whatever their types */
#if defined __x86_64__
#define JUMP(symbol) "jmp " symbol "@PLT\n"
#else
#define JUMP(symbol) "b " symbol "\n"
#endif
#define FORWARD(name, suffix, version) \
    __asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name \
            ":\n" JUMP(#name #suffix));
SAME_TYPES(FORWARD)

#define PAIR(name, suffix, version) { #name, #name #suffix, version },
static const struct {
    const char *name, *symbol;
    int version;
} versions[] = { OLD_TYPES(PAIR) SAME_TYPES(PAIR) };

static void *own_symbol(const char *name)
{
    Dl_info own;
    void *self = NULL;
    if (dladdr(&versions, &own) && own.dli_fname)
        self = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *p = self ? dlsym(self, name) : NULL;
    if (self)
        dlclose(self);
    return p;
}

enum { INVALID_VALUE = 1, NOT_FOUND = 500 };          /* CUresult */
enum { FOUND, SYMBOL_NOT_FOUND, VERSION_TOO_SMALL }; /* query results */

EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version,
                               uint64_t flags, int *status);
EXPORT int cuGetProcAddress(const char *name, void **out, int version,
                            uint64_t flags);

/* The function that a header of that version of CUDA means by the name. */
int cuGetProcAddress_v2(const char *name, void **out, int version,
                        uint64_t flags, int *status)
{
    (void)flags; /* per-thread default streams are not part of this */
    if (!name || !out)
        return INVALID_VALUE;
    *out = NULL;
    const char *symbol = name;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        if (!strcmp(versions[i].name, name) && version >= versions[i].version)
            symbol = versions[i].symbol;
    *out = own_symbol(symbol);
    if (status)
        *status = *out ? FOUND : SYMBOL_NOT_FOUND;
    return *out ? 0 : NOT_FOUND;
}

int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
