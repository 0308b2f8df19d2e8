/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by name, grids block by block, and the shared memory of a block. */
#include "tests/cuda/emu/fiber_run.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static const unsigned char fresh_byte = 0xff, fence_byte = 0xb7;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qn_simt_run *free_runs;
static qn_simt_kernel *kernels;
static unsigned sites;

/* --- registry */

void qn_simt_register(qn_simt_kernel *kernel)
{
    pthread_mutex_lock(&lock);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&lock);
}

qn_simt_kernel *qn_simt_first(void)
{
    pthread_mutex_lock(&lock);
    qn_simt_kernel *first = kernels;
    pthread_mutex_unlock(&lock);
    return first;
}

qn_simt_kernel *qn_simt_find(const char *name)
{
    for (qn_simt_kernel *k = qn_simt_first(); k; k = k->next)
        if (!strcmp(k->name, name))
            return k;
    return NULL;
}

/* --- shared memory */

void *qn_simt_shared_new(qn_simt_site *site, size_t bytes, size_t align)
{
    struct qn_simt_run *r = qn_simt.run;
    pthread_mutex_lock(&lock);
    unsigned number = site->number;
    if (!number) {
        number = ++sites;
        if (number >= QN_SIMT_SITES)
            qn_emu_report("over %d declarations of shared memory",
                          QN_SIMT_SITES - 1);
        __atomic_store_n(&site->number, number, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
    if (r->sites[number])
        return r->sites[number];
    if (align < 16)
        align = 16;
    size_t at = (r->shared_used + align - 1) / align * align;
    if (bytes > STATIC_BYTES || at + bytes > STATIC_BYTES)
        qn_emu_report("kernel %s declares over %d bytes of shared memory",
                      r->kernel->name, (int)STATIC_BYTES);
    r->shared_used = at + bytes + FENCE_BYTES;
    memset(r->shared + at, fresh_byte, bytes);
    memset(r->shared + at + bytes, fence_byte, FENCE_BYTES);
    r->declared[r->declarations].site = number;
    r->declared[r->declarations].at = at;
    r->declared[r->declarations++].bytes = bytes;
    r->sites[number] = r->shared + at;
    return r->shared + at;
}

static void shared_check(struct qn_simt_run *r)
{
    for (unsigned i = 0; i < r->declarations; i++) {
        const char *fence =
            r->shared + r->declared[i].at + r->declared[i].bytes;
        for (int k = 0; k < FENCE_BYTES; k++)
            if ((unsigned char)fence[k] != fence_byte)
                qn_emu_report("kernel %s, block (%u,%u,%u): write %d bytes "
                              "behind %zu bytes of shared memory",
                              r->kernel->name, qn_simt.block.x, qn_simt.block.y,
                              qn_simt.block.z, k, r->declared[i].bytes);
    }
}

/* --- launches */

static void *map_shared(size_t bytes)
{
    char *p =
        mmap(NULL, bytes + (size_t)2 * GUARD_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, GUARD_BYTES, PROT_NONE) != 0 ||
        mprotect(p + GUARD_BYTES + bytes, GUARD_BYTES, PROT_NONE) != 0)
        qn_emu_report("no memory for %zu bytes of shared memory", bytes);
    return p + GUARD_BYTES;
}

static struct qn_simt_run *run_take(void)
{
    pthread_mutex_lock(&lock);
    struct qn_simt_run *r = free_runs;
    if (r)
        free_runs = r->next_free;
    pthread_mutex_unlock(&lock);
    if (r)
        return r;
    r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED)
        qn_emu_report("no memory for a block");
    /* room for the fence of the last declaration */
    r->shared = map_shared(STATIC_BYTES + GUARD_BYTES);
    r->dynamic_end = (char *)map_shared(DYNAMIC_BYTES) + DYNAMIC_BYTES;
    return r;
}

static void run_give(struct qn_simt_run *r)
{
    for (unsigned i = 0; i < r->declarations; i++)
        r->sites[r->declared[i].site] = NULL;
    r->declarations = 0;
    r->shared_used = 0;
    pthread_mutex_lock(&lock);
    r->next_free = free_runs;
    free_runs = r;
    pthread_mutex_unlock(&lock);
}

static void run_block(struct qn_simt_run *r)
{
    r->next = 0;
    r->next_index = (qn_simt_dim3){ 0, 0, 0 };
    r->live = r->threads;
    for (unsigned w = 0; w * 32 < r->threads; w++) {
        unsigned lanes = r->threads - w * 32;
        r->warp[w].live = lanes >= 32 ? ~0u : (1u << lanes) - 1;
    }
    for (unsigned i = 0; i < r->declarations; i++)
        memset(r->shared + r->declared[i].at, fresh_byte, r->declared[i].bytes);
    qn_simt_go(r, &r->main, qn_simt_fiber_take(r), false);
    shared_check(r);
}

void qn_simt_launch(qn_simt_kernel *kernel, qn_simt_dim3 grid,
                    qn_simt_dim3 block, size_t dynamic_bytes, const void *args)
{
    struct qn_simt_run *r = run_take();
    size_t rounded = (dynamic_bytes + 15) / 16 * 16;
    if (rounded > DYNAMIC_BYTES || block.x * block.y * block.z > MOST_THREADS)
        qn_emu_report("kernel %s: launch beyond the limits", kernel->name);
    r->kernel = kernel;
    r->args = args;
    r->threads = block.x * block.y * block.z;
    qn_simt.block_dim = block;
    qn_simt.grid_dim = grid;
    qn_simt.dynamic = r->dynamic_end - rounded;
    qn_simt.sites = r->sites;
    qn_simt.run = r;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                qn_simt.block = (qn_simt_dim3){ x, y, z };
                if (rounded)
                    memset(qn_simt.dynamic, fresh_byte, rounded);
                run_block(r);
            }
    qn_simt.run = NULL;
    run_give(r);
    __atomic_add_fetch(&kernel->launches, 1, __ATOMIC_RELAXED);
}
