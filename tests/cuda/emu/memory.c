/* SPDX-License-Identifier: Apache-2.0 */
/* The table of everything that device work may touch, and its protection.
 *
 * Pages of device memory carry a protection key to which only threads of
 * streams have access; everywhere else a touch is a fault, in the host's own
 * code as in system calls. Without keys (other processors, old kernels) all
 * pages are PROT_NONE unless some stream is at work, which finds less.
 *
 * An allocation ends at the end of a page, up to its alignment of 256 bytes,
 * with pages without access on both sides; the bytes between its end and the
 * page's, and before its start, are checked when it is freed. What was freed
 * stays without access for a while. */
#include "tests/cuda/emu/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE         ((size_t)4096)
#define ALLOCATION   ((size_t)256) /* alignment, and unit of sizes */
#define FRESH        0xff          /* NaN in every floating-point type */
#define FENCE        0xb7
#define LATE_FREES   256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges; /* sorted by start, disjoint but for RESERVED */
static size_t n_ranges, capacity;

static int key = -1;         /* protection key; -1: none to be had */
static unsigned openings;    /* without keys: threads at work */
static _Thread_local unsigned opened;

static struct late {
    char *map;
    size_t bytes;
} late[LATE_FREES];
static unsigned next_late;

void memory_init(void)
{
    if (!getenv("QN_EMU_NO_PKEY"))
        key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
}

bool memory_has_keys(void)
{
    return key >= 0;
}

static bool is_protected(const struct range *r)
{
    return r->kind == RANGE_DEVICE || r->kind == RANGE_POOL ||
           r->kind == RANGE_LEAVING ||
           (r->kind == RANGE_MAPPED && r->accessible);
}

static void protect(void *p, size_t bytes)
{
    int prot = PROT_READ | PROT_WRITE;
    int failed = key >= 0 ? pkey_mprotect(p, bytes, prot, key)
                          : mprotect(p, bytes, openings ? prot : PROT_NONE);
    if (failed)
        qn_emu_report("cannot protect %zu bytes at %p: %s", bytes, p,
                      strerror(errno));
}

static void protect_all(void)
{
    for (size_t i = 0; i < n_ranges; i++)
        if (is_protected(&ranges[i])) {
            bool own = ranges[i].kind != RANGE_MAPPED;
            protect(own ? ranges[i].map + PAGE : ranges[i].start,
                    own ? ranges[i].map_bytes - 2 * PAGE : ranges[i].bytes);
        }
}

void memory_protect(void *p, size_t bytes)
{
    pthread_mutex_lock(&lock);
    protect(p, bytes);
    pthread_mutex_unlock(&lock);
}

void memory_open(void)
{
    if (opened++ > 0)
        return;
    if (key >= 0) {
        pkey_set(key, 0);
        return;
    }
    pthread_mutex_lock(&lock);
    if (openings++ == 0)
        protect_all();
    pthread_mutex_unlock(&lock);
}

void memory_shut(void)
{
    if (--opened > 0)
        return;
    if (key >= 0) {
        pkey_set(key, PKEY_DISABLE_ACCESS);
        return;
    }
    pthread_mutex_lock(&lock);
    if (--openings == 0)
        protect_all();
    pthread_mutex_unlock(&lock);
}

/* --- the table */

/* Number of ranges that start at or below p. */
static size_t below(const void *p)
{
    size_t low = 0, high = n_ranges;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if ((const char *)p >= ranges[mid].start)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The one that holds p; what is mapped comes before what is reserved. */
static struct range *holder(const void *p)
{
    size_t i = below(p);
    struct range *reserved = NULL;
    while (i-- > 0) {
        struct range *r = &ranges[i];
        bool in = (size_t)((const char *)p - r->start) < r->bytes;
        if (in && r->kind != RANGE_RESERVED)
            return r;
        if (r->kind == RANGE_RESERVED) {
            reserved = in ? r : NULL;
            break; /* what lies before a reservation does not reach into it */
        }
        if (r->kind != RANGE_MAPPED)
            break;
        /* a mapped piece before p: p may lie in the reservation around */
    }
    return reserved;
}

void range_insert(const struct range *range)
{
    pthread_mutex_lock(&lock);
    if (n_ranges == capacity) {
        size_t more = capacity ? capacity * 2 : 256;
        void *p = realloc(ranges, more * sizeof *ranges);
        if (!p)
            qn_emu_report("no memory for %zu ranges", more);
        ranges = p;
        capacity = more;
    }
    size_t at = below(range->start);
    memmove(&ranges[at + 1], &ranges[at], (n_ranges - at) * sizeof *ranges);
    ranges[at] = *range;
    n_ranges++;
    pthread_mutex_unlock(&lock);
}

bool range_remove(const void *start, unsigned kinds, struct range *out)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = below(start); i-- > 0 && !found;) {
        if (ranges[i].start != start)
            break;
        if (!(kinds >> ranges[i].kind & 1u))
            continue;
        found = true;
        *out = ranges[i];
        n_ranges--;
        memmove(&ranges[i], &ranges[i + 1], (n_ranges - i) * sizeof *ranges);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool range_leave(const void *start, struct range *out)
{
    pthread_mutex_lock(&lock);
    struct range *r = holder(start);
    bool found = r && r->start == start && r->kind == RANGE_POOL;
    if (found) {
        r->kind = RANGE_LEAVING;
        *out = *r;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool range_find(const void *p, struct range *out)
{
    pthread_mutex_lock(&lock);
    struct range *r = holder(p);
    if (r)
        *out = *r;
    pthread_mutex_unlock(&lock);
    return r != NULL;
}

bool range_usable(const void *p, size_t bytes, struct range *out)
{
    const char *at = p, *end = at + bytes;
    bool fine = end >= at;
    pthread_mutex_lock(&lock);
    do {
        struct range *r = holder(at);
        if (!r || r->kind == RANGE_RESERVED || r->kind == RANGE_LEAVING ||
            (r->kind == RANGE_MAPPED && !r->accessible)) {
            fine = false;
            break;
        }
        if (at == p && out)
            *out = *r;
        at = r->start + r->bytes;
        if (r->kind != RANGE_MAPPED)
            break; /* only mapped pieces continue each other */
    } while (at < end);
    pthread_mutex_unlock(&lock);
    return fine && at >= end;
}

bool range_overlaps(const void *p, size_t bytes, unsigned kinds)
{
    bool found = false;
    const char *at = p;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_ranges && !found; i++)
        found = (kinds >> ranges[i].kind & 1u) && ranges[i].start < at + bytes &&
                at < ranges[i].start + ranges[i].bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

bool range_each_mapped(char *p, size_t bytes,
                       void (*fn)(struct range *range, void *arg), void *arg)
{
    char *at = p;
    pthread_mutex_lock(&lock);
    while (at < p + bytes) {
        struct range *r = holder(at);
        if (!r || r->kind != RANGE_MAPPED || r->start != at ||
            at + r->bytes > p + bytes)
            break;
        at += r->bytes;
    }
    bool whole = at == p + bytes && bytes > 0;
    for (at = p; whole && fn && at < p + bytes;) {
        struct range *r = holder(at);
        at += r->bytes;
        fn(r, arg);
    }
    pthread_mutex_unlock(&lock);
    return whole;
}

/* Called from a signal handler: looks without the lock. */
void range_text(const void *p, char *text, size_t bytes)
{
    static const char *const name[] = {
        "", "device allocation", "pool allocation", "pinned host memory",
        "registered host memory", "reserved address space", "mapped pages",
        "freed pool allocation"
    };
    const struct range *r = holder(p);
    size_t i = below(p);
    if (r)
        snprintf(text, bytes, "byte %zu of %s of %zu bytes at %p%s",
                 (size_t)((const char *)p - r->start), name[r->kind], r->bytes,
                 (void *)r->start,
                 r->kind == RANGE_RESERVED ? ", not mapped" : "");
    else if (i > 0)
        snprintf(text, bytes, "%zu bytes behind %s of %zu bytes at %p",
                 (size_t)((const char *)p - ranges[i - 1].start) -
                     ranges[i - 1].bytes,
                 name[ranges[i - 1].kind], ranges[i - 1].bytes,
                 (void *)ranges[i - 1].start);
    else
        snprintf(text, bytes, "no allocation below");
}

bool qn_emu_device_range(const void *p, size_t bytes)
{
    return range_usable(p, bytes, NULL);
}

/* --- accounts */

bool memory_charge(int device, uint64_t bytes)
{
    struct device *d = &devices[device];
    uint64_t now = __atomic_add_fetch(&d->in_use, bytes, __ATOMIC_RELAXED);
    if (now <= __atomic_load_n(&d->memory, __ATOMIC_RELAXED))
        return true;
    __atomic_sub_fetch(&d->in_use, bytes, __ATOMIC_RELAXED);
    return false;
}

void memory_uncharge(int device, uint64_t bytes)
{
    __atomic_sub_fetch(&devices[device].in_use, bytes, __ATOMIC_RELAXED);
}

uint64_t qn_emu_bytes_in_use(int device)
{
    return __atomic_load_n(&devices[device].in_use, __ATOMIC_RELAXED);
}

void qn_emu_set_memory(int device, uint64_t bytes)
{
    __atomic_store_n(&devices[device].memory, bytes, __ATOMIC_RELAXED);
}

/* --- allocations */

CUresult device_alloc(int device, size_t bytes, enum range_kind kind,
                      struct CUmemPoolHandle_st *pool, void **out)
{
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > devices[device].memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t units = (bytes + ALLOCATION - 1) / ALLOCATION * ALLOCATION;
    size_t pages = (units + PAGE - 1) / PAGE * PAGE;
    if (!memory_charge(device, units))
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *map = mmap(NULL, pages + 2 * PAGE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        memory_uncharge(device, units);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    char *start = map + PAGE + pages - units;
    struct range r = { start, bytes, kind, device, true,
                       map,   pages + 2 * PAGE, pool, NULL };
    range_insert(&r);
    memory_protect(map + PAGE, pages);
    memory_open();
    memset(map + PAGE, FENCE, (size_t)(start - map) - PAGE);
    memset(start, FRESH, bytes);
    memset(start + bytes, FENCE, units - bytes);
    memory_shut();
    *out = start;
    return CUDA_SUCCESS;
}

static void check_fence(const struct range *r, const char *from, const char *to)
{
    for (const char *p = from; p < to; p++)
        if ((unsigned char)*p != FENCE)
            qn_emu_report("a device allocation of %zu bytes was written %s: "
                          "byte %td",
                          r->bytes, p < r->start ? "before it" : "past its end",
                          p - r->start);
}

void device_free(const struct range *r)
{
    const char *end = r->map + r->map_bytes - PAGE;
    memory_open();
    if (!memory_has_keys()) /* it is no longer in the table */
        memory_protect(r->map + PAGE, r->map_bytes - 2 * PAGE);
    check_fence(r, r->map + PAGE, r->start);
    check_fence(r, r->start + r->bytes, end);
    memory_shut();
    memory_uncharge(r->device, (uint64_t)(end - r->start));
    quarantine(r->map, r->map_bytes);
}

void quarantine(char *map, size_t bytes)
{
    void *p = mmap(map, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                   0);
    if (p == MAP_FAILED)
        qn_emu_report("cannot protect freed memory: %s", strerror(errno));
    pthread_mutex_lock(&lock);
    struct late out = late[next_late % LATE_FREES];
    late[next_late++ % LATE_FREES] = (struct late){ map, bytes };
    pthread_mutex_unlock(&lock);
    if (out.map)
        munmap(out.map, out.bytes);
}
