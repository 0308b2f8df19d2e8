/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, functions, launches. The image that a module is loaded from is
 * looked at, not used: functions are the host's builds of the same sources,
 * in libquern-kernels-emu.so beside this library or in the libraries that
 * QN_EMU_KERNELS names (with colons between them), found by name. */
#include "tests/cuda/emu/internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MODULE_MAGIC = 0x514d4f44, FUNCTION_MAGIC = 0x5146554e };
enum { SHARED_DEFAULT = 49152, SHARED_MOST = 232448 };

struct CUfunc_st {
    uint32_t magic;
    qn_simt_kernel *kernel;
    unsigned most_dynamic; /* atomic: bytes of shared memory */
    struct CUfunc_st *next;
};

struct CUmod_st {
    uint32_t magic;
    CUcontext context;
    pthread_mutex_t lock;
    struct CUfunc_st *functions;
};

/* --- the libraries of kernels */

static void load_one(const char *path)
{
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
        qn_emu_report("cannot load kernels: %s", dlerror());
}

static void load_kernels(void)
{
    const char *list = getenv("QN_EMU_KERNELS");
    char path[4096];
    Dl_info own;
    if (!list) {
        if (!dladdr(&devices, &own) || !own.dli_fname)
            return;
        const char *slash = strrchr(own.dli_fname, '/');
        int n = slash ? (int)(slash - own.dli_fname) + 1 : 0;
        snprintf(path, sizeof path, "%.*slibquern-kernels-emu.so", n,
                 own.dli_fname);
        load_one(path);
        return;
    }
    while (*list) {
        size_t n = strcspn(list, ":");
        snprintf(path, sizeof path, "%.*s", (int)n, list);
        if (n)
            load_one(path);
        list += n + (list[n] == ':');
    }
}

/* Machine code or text of a kind that the driver takes. */
static bool is_image(const void *image)
{
    static const unsigned char fatbin[4] = { 0x50, 0xed, 0x55, 0xba };
    return !memcmp(image, fatbin, 4) || !memcmp(image, "\177ELF", 4) ||
           !memcmp(image, "//", 2) || !memcmp(image, ".ver", 4) ||
           !memcmp(image, "\n.ve", 4);
}

API cuModuleLoadData(CUmodule *out, const void *image)
{
    ENTER("cuModuleLoadData", CONTEXT | UNSAFE);
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_image(image))
        return CUDA_ERROR_INVALID_IMAGE;
    pthread_once(&once, load_kernels);
    struct CUmod_st *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->magic = MODULE_MAGIC;
    m->context = current_context();
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return CUDA_SUCCESS;
}

API cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int n,
                       CUjit_option *options, void **values)
{
    (void)n, (void)options, (void)values;
    return cuModuleLoadData(out, image);
}

API cuModuleUnload(CUmodule m)
{
    ENTER("cuModuleUnload", CONTEXT | UNSAFE);
    if (!m || m->magic != MODULE_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    context_sync(m->context);
    m->magic = 0;
    while (m->functions) {
        struct CUfunc_st *f = m->functions;
        m->functions = f->next;
        f->magic = 0;
        free(f);
    }
    free(m);
    return CUDA_SUCCESS;
}

API cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    ENTER("cuModuleGetFunction", CONTEXT);
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!m || m->magic != MODULE_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    qn_simt_kernel *kernel = qn_simt_find(name);
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&m->lock);
    struct CUfunc_st *f = m->functions;
    while (f && f->kernel != kernel)
        f = f->next;
    if (!f && (f = calloc(1, sizeof *f)) != NULL) {
        f->magic = FUNCTION_MAGIC;
        f->kernel = kernel;
        f->most_dynamic = SHARED_DEFAULT;
        f->next = m->functions;
        m->functions = f;
    }
    pthread_mutex_unlock(&m->lock);
    *out = f;
    return f ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_function(CUfunction f)
{
    return f && f->magic == FUNCTION_MAGIC;
}

API cuFuncGetName(const char **name, CUfunction f)
{
    ENTER("cuFuncGetName", INIT);
    if (!is_function(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *name = f->kernel->name;
    return CUDA_SUCCESS;
}

API cuFuncGetAttribute(int *out, CUfunction_attribute what, CUfunction f)
{
    ENTER("cuFuncGetAttribute", CONTEXT);
    if (!is_function(f))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)what) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = (int)f->kernel->most_threads;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *out = (int)f->most_dynamic;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *out = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *out = 90;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *out = 0;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

API cuFuncSetAttribute(CUfunction f, CUfunction_attribute what, int value)
{
    ENTER("cuFuncSetAttribute", CONTEXT);
    if (!is_function(f))
        return CUDA_ERROR_INVALID_HANDLE;
    if (what == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        return value >= -1 && value <= 100 ? CUDA_SUCCESS
                                           : CUDA_ERROR_INVALID_VALUE;
    if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > SHARED_MOST)
        return CUDA_ERROR_INVALID_VALUE;
    __atomic_store_n(&f->most_dynamic, (unsigned)value, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction f,
                                                int threads, size_t shared)
{
    ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor", CONTEXT);
    if (!is_function(f))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || threads <= 0 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    int n = 2048 / ((threads + 31) / 32 * 32);
    if (n > 32)
        n = 32;
    if (shared && (size_t)n > 233472 / (shared + 1024))
        n = (int)(233472 / (shared + 1024));
    *out = threads > (int)f->kernel->most_threads ? 0 : n;
    return CUDA_SUCCESS;
}

/* --- launches */

struct launch {
    qn_simt_kernel *kernel;
    qn_simt_dim3 grid, block;
    size_t dynamic;
    _Alignas(16) char args[4096];
};

static void run_kernel(void *arg)
{
    struct launch *l = arg;
    qn_simt_launch(l->kernel, l->grid, l->block, l->dynamic, l->args);
}

static CUresult check_shape(const struct CUfunc_st *f, qn_simt_dim3 grid,
                            qn_simt_dim3 block, unsigned shared)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || grid.x > 2147483647u ||
        grid.y > 65535 || grid.z > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (!threads || block.x > 1024 || block.y > 1024 || block.z > 64 ||
        threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > f->kernel->most_threads)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (shared > __atomic_load_n(&f->most_dynamic, __ATOMIC_RELAXED))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* The one argument, from an array of pointers or from a packed buffer. */
static const void *find_args(const struct CUfunc_st *f, void **params,
                             void **extra)
{
    const void *buffer = NULL;
    size_t bytes = 0;
    if (params)
        return extra ? NULL : params[0];
    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            memcpy(&bytes, extra[1], sizeof bytes);
    }
    return bytes >= f->kernel->argument_bytes ? buffer : NULL;
}

static CUresult launch(CUfunction f, qn_simt_dim3 grid, qn_simt_dim3 block,
                       unsigned shared, CUstream stream, void **params,
                       void **extra, CUresult fault)
{
    struct CUstream_st *s;
    if (!is_function(f))
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = stream_of(stream, &s);
    if (r == CUDA_SUCCESS && s->context != current_context())
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS)
        r = check_shape(f, grid, block, shared);
    if (r != CUDA_SUCCESS)
        return r;
    const void *args = find_args(f, params, extra);
    if (!args)
        return CUDA_ERROR_INVALID_VALUE;
    struct launch l;
    l.kernel = f->kernel;
    l.grid = grid;
    l.block = block;
    l.dynamic = shared;
    memcpy(l.args, args, f->kernel->argument_bytes);
    struct op *op =
        op_new(QN_EMU_KERNEL, f->kernel->name, run_kernel, &l,
               offsetof(struct launch, args) + f->kernel->argument_bytes);
    op->keeps_arg = true;
    op->poisons = fault;
    return stream_op(s, op);
}

/* A code that kills the context is what the kernel does, not its launch. */
static CUresult enter_launch(struct counter *api, CUresult *fault)
{
    CUresult code = injected(api);
    *fault = poisons((int)code) ? code : CUDA_SUCCESS;
    if (code != *fault)
        return code;
    if (n_devices == 0)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUcontext context = current_context();
    return context ? sticky_of(context) : CUDA_ERROR_INVALID_CONTEXT;
}

static struct counter launches = { "cuLaunchKernel", 0, NULL, false };

API cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy,
                   unsigned int gz, unsigned int bx, unsigned int by,
                   unsigned int bz, unsigned int shared, CUstream stream,
                   void **params, void **extra)
{
    CUresult fault, r = enter_launch(&launches, &fault);
    if (r != CUDA_SUCCESS)
        return r;
    return launch(f, (qn_simt_dim3){ gx, gy, gz },
                  (qn_simt_dim3){ bx, by, bz }, shared, stream, params, extra,
                  fault);
}

API cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params,
                     void **extra)
{
    CUresult fault, r = enter_launch(&launches, &fault);
    if (r != CUDA_SUCCESS)
        return r;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++)
        if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_IGNORE &&
            c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PRIORITY)
            return CUDA_ERROR_NOT_SUPPORTED; /* of this emulation */
    return launch(f, (qn_simt_dim3){ c->gridDimX, c->gridDimY, c->gridDimZ },
                  (qn_simt_dim3){ c->blockDimX, c->blockDimY, c->blockDimZ },
                  c->sharedMemBytes, c->hStream, params, extra, fault);
}
