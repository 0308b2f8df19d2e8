/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where device memory comes from.
 *
 *   map      arenas: an address range with pages of its own, which go back to
 *            the card when it is unmapped. One physical allocation per range, so
 *            ranges go back whole.
 *   alloc    static memory of models, one block each
 *   pin      host memory that cards copy from and to while the host goes on
 */
#include "runtime/cuda/lane.h"

#include <string.h>

static CUmemAllocationProp backing(const qn_cuda_device *d)
{
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED; /* the only one: not swapped */
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = d->device;
    return p;
}

qn_status qn_cuda_memory_init(qn_cuda_device *d, qn_error *err)
{
    CUmemAllocationProp p = backing(d);
    size_t granule = 0;
    qn_status st = qn_cuda_check(
        d,
        d->cu.granularity(&granule, &p,
                          CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        err, "cuMemGetAllocationGranularity");
    if (st != QN_OK)
        return st;
    if (!granule || (granule & (granule - 1)))
        return qn_fail(err, QN_DEVICE,
                       "%s: memory is mapped in units of %zu bytes, a power of "
                       "two was expected",
                       d->base.label, granule);
    d->ops.granule = granule;
    return QN_OK;
}

/* ---- address ranges ---- */

/* Pages for the range, readable and writable by the device. */
static CUresult back(qn_cuda_device *d, CUdeviceptr at, size_t bytes)
{
    CUmemAllocationProp p = backing(d);
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle handle;
    CUresult r = d->cu.handle_create(&handle, bytes, &p, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = d->cu.handle_map(at, bytes, 0, handle, 0);
    /* the mapping holds the pages from here on, or nobody does */
    CUresult released = d->cu.handle_release(handle);
    if (r != CUDA_SUCCESS)
        return r;
    memset(&access, 0, sizeof access);
    access.location = p.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    r = released == CUDA_SUCCESS ? d->cu.access_set(at, bytes, &access, 1)
                                 : released;
    if (r != CUDA_SUCCESS)
        qn_cuda_note(d, d->cu.handle_unmap(at, bytes), "cuMemUnmap");
    return r;
}

void *qn_cuda_map(qn_accel *accel, size_t bytes)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    CUdeviceptr at = 0;
    qn_error err = { 0 };
    if (!bytes || bytes % d->ops.granule ||
        qn_cuda_enter_blocking(d, &err) != QN_OK)
        return NULL;
    CUresult r = d->cu.address_reserve(&at, bytes, 0, 0, 0);
    if (r == CUDA_SUCCESS) {
        r = back(d, at, bytes);
        if (r != CUDA_SUCCESS)
            qn_cuda_note(d, d->cu.address_free(at, bytes), "cuMemAddressFree");
    }
    qn_cuda_gate_leave(d);
    /* exhausted is an answer; anything else deserves a line */
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
        qn_cuda_note(d, r, "mapping device memory");
    return r == CUDA_SUCCESS ? qn_cuda_pointer(at) : NULL;
}

void qn_cuda_unmap(qn_accel *accel, void *data, size_t bytes)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    if (!data || qn_cuda_enter_blocking(d, NULL) != QN_OK)
        return; /* a dead device's memory goes with its context */
    qn_cuda_note(d, d->cu.handle_unmap(qn_cuda_address(data), bytes),
                 "cuMemUnmap");
    qn_cuda_note(d, d->cu.address_free(qn_cuda_address(data), bytes),
                 "cuMemAddressFree");
    qn_cuda_gate_leave(d);
}

/* ---- host memory ---- */

void *qn_cuda_pin(qn_accel *accel, size_t bytes)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    void *p = NULL;
    if (!bytes || qn_cuda_enter_blocking(d, NULL) != QN_OK)
        return NULL;
    CUresult r = d->cu.host_alloc(&p, bytes, CU_MEMHOSTALLOC_PORTABLE);
    qn_cuda_gate_leave(d);
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
        qn_cuda_note(d, r, "pinning host memory");
    return r == CUDA_SUCCESS ? p : NULL;
}

void qn_cuda_unpin(qn_accel *accel, void *data, size_t bytes)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    (void)bytes;
    if (!data || qn_cuda_enter_blocking(d, NULL) != QN_OK)
        return;
    qn_cuda_note(d, d->cu.host_free(data), "cuMemFreeHost");
    qn_cuda_gate_leave(d);
}

/* ---- static memory ---- */

qn_status qn_cuda_alloc(qn_accel *accel, size_t bytes, void **out, qn_error *err)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    CUdeviceptr at = 0;
    *out = NULL;
    if (!bytes)
        return QN_OK;
    qn_status st = qn_cuda_enter_blocking(d, err);
    if (st != QN_OK)
        return st;
    st = qn_cuda_check(d, d->cu.mem_alloc(&at, bytes), err,
                       "allocating %zu bytes", bytes);
    qn_cuda_gate_leave(d);
    if (st == QN_OK)
        *out = qn_cuda_pointer(at);
    return st;
}

void qn_cuda_release(qn_accel *accel, void *data)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    if (!data || qn_cuda_enter_blocking(d, NULL) != QN_OK)
        return;
    qn_cuda_note(d, d->cu.mem_free(qn_cuda_address(data)), "cuMemFree");
    qn_cuda_gate_leave(d);
}

/* On a stream of its own: the copy without a stream would use the one that every
 * other kind of stream waits for. Threads may share it; each waits for all. */
qn_status qn_cuda_upload(qn_accel *accel, void *dst, const void *src,
                         size_t bytes, qn_error *err)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    if (!bytes)
        return QN_OK;
    qn_status st = qn_cuda_enter(d, err);
    if (st != QN_OK)
        return st;
    CUresult r = d->cu.copy_to_device(qn_cuda_address(dst), src, bytes,
                                      d->upload);
    /* also after a failure: what was enqueued reads src */
    CUresult done = d->cu.stream_sync(d->upload);
    return qn_cuda_check(d, r == CUDA_SUCCESS ? done : r, err,
                         "uploading %zu bytes", bytes);
}
