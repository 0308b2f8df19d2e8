/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and their primary contexts, as cuda.h documents them. */
#include "tests/cuda/emu/internal.h"

#include <stdio.h>
#include <string.h>

struct device devices[MOST_DEVICES];
int n_devices;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local CUcontext stack[16];
static _Thread_local int depth; /* stack[depth - 1] is current */

uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return otherwise;
    unsigned long long v = strtoull(text, &end, 0);
    if (*end)
        qn_emu_report("%s is not a number: '%s'", name, text);
    return v;
}

API cuInit(unsigned int flags)
{
    ENTER("cuInit", ANY);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&init_lock);
    if (n_devices == 0) {
        uint64_t n = env_number("QN_EMU_DEVICES", 1);
        if (n == 0) {
            pthread_mutex_unlock(&init_lock);
            return CUDA_ERROR_NO_DEVICE;
        }
        if (n > MOST_DEVICES)
            n = MOST_DEVICES;
        const char *name = getenv("QN_EMU_NAME");
        memory_init();
        faults_init();
        qn_emu_delays(env_number("QN_EMU_SEED", 0),
                      (uint32_t)env_number("QN_EMU_DELAY_US", 0));
        for (int i = 0; i < (int)n; i++) {
            struct device *d = &devices[i];
            snprintf(d->name, sizeof d->name, "%s",
                     name ? name : "Emulated GPU");
            d->multiprocessors = (int)env_number("QN_EMU_SMS", 4);
            if (d->memory == 0) /* not set by a test */
                d->memory = env_number("QN_EMU_MEMORY", (uint64_t)8 << 30);
            d->context.device = i;
            pthread_mutex_init(&d->context.lock, NULL);
        }
        __atomic_store_n(&n_devices, (int)n, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&init_lock);
    return CUDA_SUCCESS;
}

API cuDriverGetVersion(int *out)
{
    ENTER("cuDriverGetVersion", ANY);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (int)env_number("QN_EMU_VERSION", CUDA_VERSION);
    return CUDA_SUCCESS;
}

/* --- devices */

static struct device *device_of(CUdevice device)
{
    return device >= 0 && device < n_devices ? &devices[device] : NULL;
}

API cuDeviceGetCount(int *out)
{
    ENTER("cuDeviceGetCount", INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = n_devices;
    return CUDA_SUCCESS;
}

API cuDeviceGet(CUdevice *out, int ordinal)
{
    ENTER("cuDeviceGet", INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_of(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = ordinal;
    return CUDA_SUCCESS;
}

API cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    ENTER("cuDeviceGetName", INIT);
    struct device *d = device_of(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!name || bytes <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)bytes, "%s", d->name);
    return CUDA_SUCCESS;
}

API cuDeviceTotalMem(size_t *out, CUdevice device)
{
    ENTER("cuDeviceTotalMem", INIT);
    struct device *d = device_of(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = d->memory;
    return CUDA_SUCCESS;
}

API cuDeviceGetUuid(CUuuid *out, CUdevice device)
{
    ENTER("cuDeviceGetUuid", INIT);
    if (!device_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, "quern emulated", 14);
    out->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

API cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    ENTER("cuDeviceGetPCIBusId", INIT);
    if (!device_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!text || bytes < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", (unsigned)device + 1);
    return CUDA_SUCCESS;
}

API cuDeviceGetAttribute(int *out, CUdevice_attribute attribute,
                         CUdevice device)
{
    ENTER("cuDeviceGetAttribute", INIT);
    struct device *d = device_of(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        *out = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        *out = 64;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        *out = 2147483647;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        *out = attribute >= CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK ? 65536
                                                                       : 65535;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        *out = 49152;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *out = 232448;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *out = 233472;
        break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        *out = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
        *out = 65536;
        break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *out = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *out = 1980000;
        break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *out = 3201000;
        break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *out = 6144;
        break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        *out = 512;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *out = d->multiprocessors;
        break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *out = 50 << 20;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *out = 2048;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        *out = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        *out = 3;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *out = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *out = device + 1;
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        *out = 1;
        break;
    default: /* a feature that is not there */
        *out = 0;
        break;
    }
    return CUDA_SUCCESS;
}

API cuDeviceCanAccessPeer(int *out, CUdevice device, CUdevice peer)
{
    ENTER("cuDeviceCanAccessPeer", INIT);
    if (!device_of(device) || !device_of(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = device != peer && !getenv("QN_EMU_NO_PEER");
    return CUDA_SUCCESS;
}

/* --- contexts */

CUcontext current_context(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult sticky_of(CUcontext context)
{
    return (CUresult)__atomic_load_n(&context->sticky, __ATOMIC_ACQUIRE);
}

void poison(CUcontext context, CUresult code)
{
    int healthy = CUDA_SUCCESS;
    __atomic_compare_exchange_n(&context->sticky, &healthy, (int)code, false,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

void qn_emu_revive(void)
{
    for (int i = 0; i < n_devices; i++)
        __atomic_store_n(&devices[i].context.sticky, 0, __ATOMIC_RELEASE);
}

bool qn_emu_dead(int device)
{
    for (int i = 0; i < n_devices; i++)
        if ((device < 0 || i == device) &&
            sticky_of(&devices[i].context) != CUDA_SUCCESS)
            return true;
    return false;
}

static bool is_context(CUcontext context)
{
    for (int i = 0; i < n_devices; i++)
        if (context == &devices[i].context) {
            pthread_mutex_lock(&context->lock);
            bool used = context->users > 0;
            pthread_mutex_unlock(&context->lock);
            return used;
        }
    return false;
}

API cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    ENTER("cuDevicePrimaryCtxRetain", INIT);
    struct device *d = device_of(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&d->context.lock);
    d->context.users++;
    pthread_mutex_unlock(&d->context.lock);
    *out = &d->context;
    return CUDA_SUCCESS;
}

/* What the context owned stays until the process ends: its tests end soon. */
API cuDevicePrimaryCtxRelease(CUdevice device)
{
    ENTER("cuDevicePrimaryCtxRelease", INIT);
    struct device *d = device_of(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&d->context.lock);
    CUresult r = d->context.users ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (d->context.users)
        d->context.users--;
    pthread_mutex_unlock(&d->context.lock);
    return r;
}

API cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    ENTER("cuDevicePrimaryCtxSetFlags", INIT);
    struct device *d = device_of(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    d->context.flags = flags;
    return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags,
                               int *active)
{
    ENTER("cuDevicePrimaryCtxGetState", INIT);
    struct device *d = device_of(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = d->context.flags;
    *active = d->context.users > 0;
    return CUDA_SUCCESS;
}

API cuCtxSetCurrent(CUcontext context)
{
    ENTER("cuCtxSetCurrent", INIT);
    if (context && !is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context) {
        depth -= depth > 0;
    } else {
        depth += depth == 0;
        stack[depth - 1] = context;
    }
    return CUDA_SUCCESS;
}

API cuCtxGetCurrent(CUcontext *out)
{
    ENTER("cuCtxGetCurrent", INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = current_context();
    return CUDA_SUCCESS;
}

API cuCtxPushCurrent(CUcontext context)
{
    ENTER("cuCtxPushCurrent", INIT);
    if (!is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == (int)(sizeof stack / sizeof stack[0]))
        qn_emu_report("over %d contexts pushed", depth);
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

API cuCtxPopCurrent(CUcontext *out)
{
    ENTER("cuCtxPopCurrent", INIT);
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth];
    return CUDA_SUCCESS;
}

API cuCtxGetDevice(CUdevice *out)
{
    ENTER("cuCtxGetDevice", INIT);
    if (!current_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = current_context()->device;
    return CUDA_SUCCESS;
}

API cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER("cuCtxGetStreamPriorityRange", INIT);
    if (!current_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

API cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    ENTER("cuCtxEnablePeerAccess", CONTEXT);
    CUcontext own = current_context();
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_context(peer) || peer == own)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (getenv("QN_EMU_NO_PEER"))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    unsigned bit = 1u << peer->device;
    unsigned before = __atomic_fetch_or(&own->peers, bit, __ATOMIC_RELAXED);
    return before & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                        : CUDA_SUCCESS;
}

API cuCtxDisablePeerAccess(CUcontext peer)
{
    ENTER("cuCtxDisablePeerAccess", CONTEXT);
    if (!is_context(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    unsigned bit = 1u << peer->device;
    unsigned before = __atomic_fetch_and(&current_context()->peers, ~bit,
                                         __ATOMIC_RELAXED);
    return before & bit ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

API cuCtxSynchronize(void)
{
    ENTER("cuCtxSynchronize", CONTEXT);
    CUcontext context = current_context();
    CUresult r = capture_in_context(context, false,
                                    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (r != CUDA_SUCCESS)
        return r;
    context_sync(context);
    return sticky_of(context);
}
