/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory: address space, physical handles, and mappings of one in the
 * other. Physical memory is a file without a name, so that what a handle holds
 * stays when it is unmapped and mapped elsewhere, as on hardware. */
#include "tests/cuda/emu/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PHYSICAL_MAGIC = 0x51504859, FRESH = 0xff };

struct physical {
    uint32_t magic;
    unsigned refs; /* atomic: the handle, and each mapping */
    int device;
    size_t bytes;
    off_t offset; /* in the file */
};

static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;
static off_t file_end; /* offsets are not used again; holes cost nothing */

static size_t granularity(void)
{
    static size_t known; /* atomic */
    size_t g = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!g) {
        g = (size_t)env_number("QN_EMU_GRANULARITY", 65536);
        if (g < 4096 || (g & (g - 1)))
            qn_emu_report("QN_EMU_GRANULARITY: %zu is not a power of two of "
                          "4096 or more",
                          g);
        __atomic_store_n(&known, g, __ATOMIC_RELAXED);
    }
    return g;
}

static bool whole(size_t bytes)
{
    return bytes > 0 && bytes % granularity() == 0;
}

static CUresult check_prop(const CUmemAllocationProp *p)
{
    if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return p->location.id >= 0 && p->location.id < n_devices
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
}

API cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                  CUmemAllocationGranularity_flags which)
{
    ENTER("cuMemGetAllocationGranularity", INIT);
    CUresult r = check_prop(prop);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || (which != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                 which != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = granularity();
    return CUDA_SUCCESS;
}

/* --- address space */

API cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align,
                        CUdeviceptr hint, unsigned long long flags)
{
    ENTER("cuMemAddressReserve", INIT | UNSAFE);
    (void)hint;
    if (!out || flags || !whole(bytes) || (align & (align - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (align < granularity())
        align = granularity();
    if (bytes > (size_t)1 << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *map = mmap(NULL, bytes + align, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t off = (align - (uintptr_t)map % align) % align;
    struct range r = { .start = map + off,
                       .bytes = bytes,
                       .kind = RANGE_RESERVED,
                       .map = map,
                       .map_bytes = bytes + align };
    range_insert(&r);
    *out = (CUdeviceptr)r.start;
    return CUDA_SUCCESS;
}

API cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    ENTER("cuMemAddressFree", INIT | UNSAFE);
    struct range r;
    void *p = (void *)address;
    if (range_overlaps(p, bytes, 1u << RANGE_MAPPED) ||
        !range_find(p, &r) || r.start != p || r.bytes != bytes ||
        !range_remove(p, 1u << RANGE_RESERVED, &r))
        return CUDA_ERROR_INVALID_VALUE;
    quarantine(r.map, r.map_bytes);
    return CUDA_SUCCESS;
}

/* --- physical memory */

static void fill(off_t at, size_t bytes)
{
    static char pattern[65536];
    if (pattern[sizeof pattern - 1] == 0) /* under file_lock */
        memset(pattern, FRESH, sizeof pattern);
    while (bytes > 0) {
        ssize_t n = pwrite(file, pattern,
                           bytes < sizeof pattern ? bytes : sizeof pattern, at);
        if (n <= 0)
            qn_emu_report("cannot fill device memory: %s", strerror(errno));
        at += n;
        bytes -= (size_t)n;
    }
}

static void physical_unref(struct physical *p)
{
    if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, p->offset,
              (off_t)p->bytes);
    memory_uncharge(p->device, p->bytes);
    p->magic = 0;
    free(p);
}

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    struct physical *p;
    uintptr_t bits = (uintptr_t)handle;
    memcpy(&p, &bits, sizeof p);
    return p && p->magic == PHYSICAL_MAGIC ? p : NULL;
}

API cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                const CUmemAllocationProp *prop, unsigned long long flags)
{
    ENTER("cuMemCreate", INIT | UNSAFE);
    CUresult r = check_prop(prop);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags || !whole(bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!memory_charge(prop->location.id, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct physical *p = calloc(1, sizeof *p);
    if (!p)
        qn_emu_report("no memory for a handle");
    p->magic = PHYSICAL_MAGIC;
    p->refs = 1;
    p->device = prop->location.id;
    p->bytes = bytes;
    pthread_mutex_lock(&file_lock);
    if (file < 0)
        file = memfd_create("quern-emulated-device", MFD_CLOEXEC);
    p->offset = file_end;
    file_end += (off_t)bytes;
    if (file < 0 || ftruncate(file, file_end) != 0)
        qn_emu_report("no file for device memory: %s", strerror(errno));
    fill(p->offset, bytes);
    pthread_mutex_unlock(&file_lock);
    *out = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return CUDA_SUCCESS;
}

API cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER("cuMemRelease", INIT | UNSAFE);
    struct physical *p = physical_of(handle);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    physical_unref(p);
    return CUDA_SUCCESS;
}

/* --- mappings */

API cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
             CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    ENTER("cuMemMap", INIT | UNSAFE);
    struct physical *p = physical_of(handle);
    struct range r;
    char *at = (char *)address;
    if (!p || flags || offset != 0 || !whole(bytes) || bytes > p->bytes ||
        address % granularity() != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!range_find(at, &r) || r.kind != RANGE_RESERVED ||
        at + bytes > r.start + r.bytes ||
        range_overlaps(at, bytes, 1u << RANGE_MAPPED))
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, p->offset) ==
        MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
    struct range mapped = { .start = at,
                            .bytes = bytes,
                            .kind = RANGE_MAPPED,
                            .device = p->device,
                            .physical = p };
    range_insert(&mapped);
    return CUDA_SUCCESS;
}

static void set_access(struct range *r, void *arg)
{
    r->accessible = *(const bool *)arg;
}

API cuMemSetAccess(CUdeviceptr address, size_t bytes,
                   const CUmemAccessDesc *desc, size_t n)
{
    ENTER("cuMemSetAccess", INIT | UNSAFE);
    bool access = false;
    if (!desc || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            desc[i].location.id < 0 || desc[i].location.id >= n_devices)
            return CUDA_ERROR_INVALID_DEVICE;
        access |= desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    char *at = (char *)address;
    if (!range_each_mapped(at, bytes, set_access, &access))
        return CUDA_ERROR_INVALID_VALUE;
    if (access)
        memory_protect(at, bytes);
    else
        mprotect(at, bytes, PROT_NONE);
    return CUDA_SUCCESS;
}

/* Work that still uses the pages faults, as on hardware. */
API cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    ENTER("cuMemUnmap", INIT | UNSAFE);
    char *at = (char *)address;
    if (!range_each_mapped(at, bytes, NULL, NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap(at, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        qn_emu_report("cannot unmap %zu bytes: %s", bytes, strerror(errno));
    for (char *end = at + bytes; at < end;) {
        struct range r;
        if (!range_remove(at, 1u << RANGE_MAPPED, &r))
            qn_emu_report("two unmaps of %p at once", (void *)at);
        at += r.bytes;
        physical_unref(r.physical);
    }
    return CUDA_SUCCESS;
}
