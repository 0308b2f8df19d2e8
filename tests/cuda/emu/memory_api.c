/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of device memory, from pools, and of pinned host memory. */
#include "tests/cuda/emu/internal.h"

#include <string.h>
#include <sys/mman.h>

enum { POOL_MAGIC = 0x51504f4f, PAGE = 4096, FRESH = 0xff, FREED = 0xa5 };

#define OWN_KINDS (1u << RANGE_DEVICE | 1u << RANGE_POOL)

API cuMemGetInfo(size_t *left, size_t *total)
{
    ENTER("cuMemGetInfo", CONTEXT);
    struct device *d = &devices[current_context()->device];
    uint64_t used = __atomic_load_n(&d->in_use, __ATOMIC_RELAXED);
    if (left)
        *left = d->memory > used ? d->memory - used : 0;
    if (total)
        *total = d->memory;
    return CUDA_SUCCESS;
}

API cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    ENTER("cuMemAlloc", CONTEXT | UNSAFE);
    void *p;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = device_alloc(current_context()->device, bytes, RANGE_DEVICE,
                              NULL, &p);
    if (r == CUDA_SUCCESS)
        *out = (CUdeviceptr)p;
    return r;
}

/* Waits for everything that the context does, as drivers do. */
API cuMemFree(CUdeviceptr address)
{
    ENTER("cuMemFree", CONTEXT | UNSAFE);
    struct range r;
    if (!address)
        return CUDA_SUCCESS;
    if (!range_find((void *)address, &r) || r.start != (void *)address ||
        !(OWN_KINDS >> r.kind & 1u))
        return CUDA_ERROR_INVALID_VALUE;
    context_sync(&devices[r.device].context);
    if (!range_remove(r.start, OWN_KINDS, &r))
        return CUDA_ERROR_INVALID_VALUE; /* freed twice at once */
    device_free(&r);
    return sticky_of(current_context());
}

API cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr p)
{
    ENTER("cuMemGetAddressRange", CONTEXT);
    struct range r;
    if (!range_usable((void *)p, 1, &r))
        return CUDA_ERROR_NOT_FOUND;
    if (start)
        *start = (CUdeviceptr)r.start;
    if (bytes)
        *bytes = r.bytes;
    return CUDA_SUCCESS;
}

API cuPointerGetAttribute(void *out, CUpointer_attribute what, CUdeviceptr p)
{
    ENTER("cuPointerGetAttribute", CONTEXT);
    struct range r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!range_usable((void *)p, 1, &r))
        return CUDA_ERROR_INVALID_VALUE;
    bool host = r.kind == RANGE_PINNED || r.kind == RANGE_REGISTERED;
    switch ((int)what) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && what == CU_POINTER_ATTRIBUTE_HOST_POINTER)
            return CUDA_ERROR_INVALID_VALUE;
        *(CUdeviceptr *)out = p;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = r.device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = (CUdeviceptr)r.start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = r.bytes;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED; /* of this emulation */
    }
}

/* --- pinned host memory */

static CUresult host_alloc(void **out, size_t bytes)
{
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > (size_t)1 << 40)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t units = (bytes + 255) / 256 * 256;
    size_t pages = (units + PAGE - 1) / PAGE * PAGE;
    char *map = mmap(NULL, pages + (size_t)2 * PAGE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (mprotect(map + PAGE, pages, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, pages + (size_t)2 * PAGE);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    char *start = map + PAGE + pages - units;
    struct range r = { .start = start,
                       .bytes = bytes,
                       .kind = RANGE_PINNED,
                       .device = current_context()->device,
                       .accessible = true,
                       .map = map,
                       .map_bytes = pages + (size_t)2 * PAGE };
    memset(start, FRESH, units);
    range_insert(&r);
    *out = start;
    return CUDA_SUCCESS;
}

API cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    ENTER("cuMemHostAlloc", CONTEXT | UNSAFE);
    unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                     CU_MEMHOSTALLOC_WRITECOMBINED;
    return flags & ~known ? CUDA_ERROR_INVALID_VALUE : host_alloc(out, bytes);
}

API cuMemAllocHost(void **out, size_t bytes)
{
    ENTER("cuMemAllocHost", CONTEXT | UNSAFE);
    return host_alloc(out, bytes);
}

API cuMemFreeHost(void *p)
{
    ENTER("cuMemFreeHost", CONTEXT | UNSAFE);
    struct range r;
    if (!p)
        return CUDA_SUCCESS;
    if (!range_find(p, &r) || r.start != p || r.kind != RANGE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < n_devices; i++)
        context_sync(&devices[i].context);
    if (!range_remove(p, 1u << RANGE_PINNED, &r))
        return CUDA_ERROR_INVALID_VALUE;
    quarantine(r.map, r.map_bytes);
    return sticky_of(current_context());
}

API cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
    ENTER("cuMemHostRegister", CONTEXT | UNSAFE);
    unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                     CU_MEMHOSTREGISTER_READ_ONLY;
    if (!p || !bytes || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    if (range_overlaps(p, bytes, 1u << RANGE_PINNED | 1u << RANGE_REGISTERED))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (range_overlaps(p, bytes, ~0u))
        return CUDA_ERROR_INVALID_VALUE;
    struct range r = { .start = p,
                       .bytes = bytes,
                       .kind = RANGE_REGISTERED,
                       .device = current_context()->device,
                       .accessible = true };
    range_insert(&r);
    return CUDA_SUCCESS;
}

API cuMemHostUnregister(void *p)
{
    ENTER("cuMemHostUnregister", CONTEXT | UNSAFE);
    struct range r;
    for (int i = 0; i < n_devices; i++)
        context_sync(&devices[i].context);
    return range_remove(p, 1u << RANGE_REGISTERED, &r)
               ? CUDA_SUCCESS
               : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

API cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned int flags)
{
    ENTER("cuMemHostGetDevicePointer", CONTEXT);
    struct range r;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!range_usable(p, 1, &r) ||
        !(r.kind == RANGE_PINNED || r.kind == RANGE_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)p;
    return CUDA_SUCCESS;
}

/* --- pools: ordered by streams. Memory is not kept for reuse: what is freed
 * is filled and loses its address, which finds more than reuse would. */

struct CUmemPoolHandle_st {
    uint32_t magic;
    int device;
    cuuint64_t attribute[16]; /* by enum; counts are kept in bytes */
};

static struct CUmemPoolHandle_st default_pools[MOST_DEVICES];

static bool is_pool(CUmemoryPool p)
{
    return p && p->magic == POOL_MAGIC;
}

API cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    ENTER("cuDeviceGetDefaultMemPool", INIT);
    if (device < 0 || device >= n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    default_pools[device].magic = POOL_MAGIC;
    default_pools[device].device = device;
    *out = &default_pools[device];
    return CUDA_SUCCESS;
}

API cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    return cuDeviceGetDefaultMemPool(out, device);
}

API cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    ENTER("cuMemPoolCreate", INIT);
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        props->location.id < 0 || props->location.id >= n_devices)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUmemPoolHandle_st *p = calloc(1, sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->magic = POOL_MAGIC;
    p->device = props->location.id;
    for (int i = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
         i <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; i++)
        p->attribute[i] = 1;
    *out = p;
    return CUDA_SUCCESS;
}

API cuMemPoolDestroy(CUmemoryPool p)
{
    ENTER("cuMemPoolDestroy", INIT);
    if (!is_pool(p) || p == &default_pools[p->device])
        return CUDA_ERROR_INVALID_VALUE;
    p->magic = 0;
    free(p);
    return CUDA_SUCCESS;
}

API cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute what, void *value)
{
    ENTER("cuMemPoolSetAttribute", INIT);
    if (!is_pool(p) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)what) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        p->attribute[what] = (cuuint64_t)(*(const int *)value != 0);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&p->attribute[what], value, sizeof(cuuint64_t));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const cuuint64_t *)value)
            return CUDA_ERROR_INVALID_VALUE; /* can only be set to 0 */
        p->attribute[what] = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

API cuMemPoolGetAttribute(CUmemoryPool p, CUmemPool_attribute what, void *value)
{
    ENTER("cuMemPoolGetAttribute", INIT);
    if (!is_pool(p) || !value || (int)what < 1 ||
        what > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (what <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        *(int *)value = (int)p->attribute[what];
    else
        *(cuuint64_t *)value =
            __atomic_load_n(&p->attribute[what], __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

API cuMemPoolTrimTo(CUmemoryPool p, size_t keep)
{
    ENTER("cuMemPoolTrimTo", INIT);
    (void)keep;
    return is_pool(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void pool_count(CUmemoryPool p, size_t bytes, bool add)
{
    static const int of[2] = { CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                               CU_MEMPOOL_ATTR_USED_MEM_CURRENT };
    for (int i = 0; p && i < 2; i++) {
        cuuint64_t *now = &p->attribute[of[i]], *high = now + 1;
        cuuint64_t n = add ? __atomic_add_fetch(now, bytes, __ATOMIC_RELAXED)
                           : __atomic_sub_fetch(now, bytes, __ATOMIC_RELAXED);
        if (n > *high)
            __atomic_store_n(high, n, __ATOMIC_RELAXED);
    }
}

static CUresult pool_alloc(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                           CUstream stream)
{
    struct CUstream_st *s;
    void *p;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_captured(s)) /* allocation nodes: not in this emulation */
        return capture_conflict(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    r = device_alloc(pool->device, bytes, RANGE_POOL, pool, &p);
    if (r != CUDA_SUCCESS)
        return r;
    pool_count(pool, bytes, true);
    *out = (CUdeviceptr)p;
    return CUDA_SUCCESS;
}

API cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                            CUstream stream)
{
    ENTER("cuMemAllocFromPoolAsync", CONTEXT);
    return pool_alloc(out, bytes, pool, stream);
}

API cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    ENTER("cuMemAllocAsync", CONTEXT);
    CUmemoryPool pool;
    CUresult r = cuDeviceGetDefaultMemPool(&pool, current_context()->device);
    return r == CUDA_SUCCESS ? pool_alloc(out, bytes, pool, stream) : r;
}

static void run_free(void *arg)
{
    struct range *r = arg;
    if (!range_remove(r->start, 1u << RANGE_LEAVING, r))
        qn_emu_report("pool memory at %p vanished before its free",
                      (void *)r->start);
    memset(r->start, FREED, r->bytes);
    device_free(r);
}

API cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    ENTER("cuMemFreeAsync", CONTEXT);
    struct CUstream_st *s;
    struct range range;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!address)
        return CUDA_SUCCESS;
    if (stream_captured(s))
        return capture_conflict(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (!range_leave((void *)address, &range))
        return CUDA_ERROR_INVALID_VALUE;
    pool_count(range.pool, range.bytes, false);
    struct op *op = op_new(QN_EMU_COPY, "cuMemFreeAsync", run_free, &range,
                           sizeof range);
    op->always = true;
    return stream_op(s, op);
}
