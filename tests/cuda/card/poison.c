/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a process lose its card, for tests of what follows: a library to be
 * preloaded into any program that uses CUDA. When the file $QN_POISON appears, a
 * thread launches a kernel that writes where nothing is mapped, in the card's
 * primary context, which the plug-in uses too. The program under test has no
 * hook for it.
 *
 * The emulated driver ends a process whose kernel does that, so there the next
 * launch is told to fail as the card's would.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

enum { ILLEGAL_ADDRESS = 700 };

/* A thread writes 1 to address 16; the driver compiles it for its card. */
static const char kernel[] = ".version 6.0\n"
                             ".target sm_50\n"
                             ".address_size 64\n"
                             ".visible .entry poison()\n"
                             "{\n"
                             "    .reg .b64 %a;\n"
                             "    .reg .b32 %v;\n"
                             "    mov.u64 %a, 16;\n"
                             "    mov.u32 %v, 1;\n"
                             "    st.global.u32 [%a], %v;\n"
                             "    ret;\n"
                             "}\n";

/* ISO C has no conversion of data pointers to functions. */
static int find(void *library, const char *name, void *out)
{
    void *p = dlsym(library, name);
    memcpy(out, &p, sizeof p);
    return p != NULL;
}

static CUresult poison(void *library)
{
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*current)(CUcontext);
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned,
                       unsigned, unsigned, unsigned, CUstream, void **,
                       void **);
    CUresult (*wait)(void);
    CUcontext context;
    CUmodule module;
    CUfunction f;
    if (!find(library, "cuInit", &init) ||
        !find(library, "cuDevicePrimaryCtxRetain", &retain) ||
        !find(library, "cuCtxSetCurrent", &current) ||
        !find(library, "cuModuleLoadData", &load) ||
        !find(library, "cuModuleGetFunction", &function) ||
        !find(library, "cuLaunchKernel", &launch) ||
        !find(library, "cuCtxSynchronize", &wait))
        return CUDA_ERROR_NOT_FOUND;
    CUresult r = init(0);
    if (r == CUDA_SUCCESS)
        r = retain(&context, 0);
    if (r == CUDA_SUCCESS)
        r = current(context);
    if (r == CUDA_SUCCESS)
        r = load(&module, kernel);
    if (r == CUDA_SUCCESS)
        r = function(&f, module, "poison");
    if (r == CUDA_SUCCESS)
        r = launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    return r == CUDA_SUCCESS ? wait() : r;
}

static void *watch(void *path)
{
    while (access(path, F_OK))
        usleep(20000);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*fail_at)(const char *, uint64_t, int);
    if (!library) {
        fprintf(stderr, "poison: the driver was never opened\n");
    } else if (find(library, "qn_emu_fail_at", &fail_at)) {
        fail_at("cuLaunchKernel", 1, ILLEGAL_ADDRESS);
        fail_at("cuGraphLaunch", 1, ILLEGAL_ADDRESS);
        fprintf(stderr, "poison: injected %d\n", ILLEGAL_ADDRESS);
    } else {
        fprintf(stderr, "poison: %d\n", (int)poison(library));
    }
    return NULL;
}

__attribute__((constructor)) static void start(void)
{
    pthread_t thread;
    char *path = getenv("QN_POISON");
    if (path && !pthread_create(&thread, NULL, watch, path))
        pthread_detach(thread);
}
