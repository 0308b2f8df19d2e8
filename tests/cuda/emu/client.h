/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the library stand-ins share: the emulated driver opened by
 * name, buffers, and cases that must end the process with a report.
 *
 * A test ends with 77 where libcuda.so.1 is not the emulation. */
#ifndef QN_TESTS_CUDA_EMU_CLIENT_H
#define QN_TESTS_CUDA_EMU_CLIENT_H

#include "tests/cuda/emu/emu.h"

#include <cuda.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENT_TEXT_(x) #x
#define CLIENT_TEXT(x)  CLIENT_TEXT_(x) /* after macros like cuMemAlloc_v2 */

/* field, function; a table of pointers to them */
#define CLIENT_FIELD(field, function) __typeof__(&function) field;
#define CLIENT_BIND(field, function)                                           \
    *(void **)&fn.field = client_symbol(library, CLIENT_TEXT(function));

#define CLIENT_DRIVER(X)                                                       \
    X(init, cuInit)                                                            \
    X(device_count, cuDeviceGetCount)                                          \
    X(retain, cuDevicePrimaryCtxRetain)                                        \
    X(set_current, cuCtxSetCurrent)                                            \
    X(alloc, cuMemAlloc)                                                       \
    X(release, cuMemFree)                                                      \
    X(to_device, cuMemcpyHtoD)                                                 \
    X(to_host, cuMemcpyDtoH)                                                   \
    X(stream_new, cuStreamCreate)                                              \
    X(stream_free, cuStreamDestroy)                                            \
    X(sync, cuStreamSynchronize)                                               \
    X(capture, cuStreamBeginCapture)                                           \
    X(captured, cuStreamEndCapture)                                            \
    X(instantiate, cuGraphInstantiate)                                         \
    X(launch, cuGraphLaunch)                                                   \
    X(exec_free, cuGraphExecDestroy)                                           \
    X(graph_free, cuGraphDestroy)                                              \
    X(count, qn_emu_count)                                                     \
    X(fail_at, qn_emu_fail_at)

static struct {
    CLIENT_DRIVER(CLIENT_FIELD)
} cu;

static inline void *client_symbol(void *library, const char *name)
{
    void *p = dlsym(library, name);
    if (!p) {
        fprintf(stderr, "%s is not there: %s\n", name, dlerror());
        exit(1);
    }
    return p;
}

static inline void *client_open(const char *soname)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

/* Makes device 0 current. */
static inline void client_start(const char *devices)
{
    setenv("QN_EMU_DEVICES", devices, 1);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library || !dlsym(library, "qn_emu_count")) {
        printf("skipped: libcuda.so.1 is not the emulation\n");
        exit(77);
    }
#define fn cu
    CLIENT_DRIVER(CLIENT_BIND)
#undef fn
    CUcontext context;
    if (cu.init(0) != CUDA_SUCCESS ||
        cu.retain(&context, 0) != CUDA_SUCCESS ||
        cu.set_current(context) != CUDA_SUCCESS)
        exit(1);
}

/* Device memory with a copy of `bytes` at from, or with 0xa5 (NULL). */
static inline void *client_buffer(const void *from, size_t bytes)
{
    CUdeviceptr p = 0;
    assert_int_equal(cu.alloc(&p, bytes), CUDA_SUCCESS);
    void *fill = NULL;
    if (!from) {
        fill = malloc(bytes);
        assert_non_null(fill);
        memset(fill, 0xa5, bytes);
    }
    assert_int_equal(cu.to_device(p, from ? from : fill, bytes), CUDA_SUCCESS);
    free(fill);
    return (void *)(uintptr_t)p;
}

static inline void client_read(void *to, const void *from, size_t bytes)
{
    assert_int_equal(cu.to_host(to, (CUdeviceptr)(uintptr_t)from, bytes),
                     CUDA_SUCCESS);
}

static inline void client_release(void *p)
{
    assert_int_equal(cu.release((CUdeviceptr)(uintptr_t)p), CUDA_SUCCESS);
}

/* What was captured on a stream, ready to launch. */
static inline CUgraphExec client_captured(CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    assert_int_equal(cu.captured(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cu.instantiate(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(cu.graph_free(graph), CUDA_SUCCESS);
    return exec;
}

/* Small deterministic values in [-1, 1], multiples of 1/64: exact in half. */
static inline double client_value(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)((int64_t)(*state >> 57) - 64) / 64;
}

/* --- cases that end in a report */

struct client_report {
    const char *name, *says;
    void (*run)(void); /* in a process of its own */
};

/* In main(), before the tests: runs the case that the process was started for.
 * A case that comes back ends it with 0, which is a failure. */
static inline void client_reports_enter(int argc, char **argv,
                                        const struct client_report *all,
                                        size_t n)
{
    if (argc != 3 || strcmp(argv[1], "report") != 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, argv[2]) == 0)
            all[i].run();
    exit(0);
}

/* Starts the program again for each case and reads what it says. */
static inline void client_reports_test(const struct client_report *all,
                                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int ends[2], status = 0;
        char text[4096] = "";
        size_t used = 0;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            dup2(ends[1], 2);
            close(ends[0]);
            close(ends[1]);
            execl("/proc/self/exe", "test", "report", all[i].name,
                  (char *)NULL);
            _exit(0);
        }
        close(ends[1]);
        ssize_t got;
        while ((got = read(ends[0], text + used, sizeof text - 1 - used)) > 0)
            used += (size_t)got;
        close(ends[0]);
        text[used] = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
            !strstr(text, all[i].says))
            fail_msg("%s: status %x, says \"%s\", expected \"%s\"",
                     all[i].name, (unsigned)status, text, all[i].says);
    }
}

#endif /* QN_TESTS_CUDA_EMU_CLIENT_H */
