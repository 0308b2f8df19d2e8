/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device code: one image per family, embedded by images.c, loaded when a first
 * kernel of the family is prepared. The driver takes the machine code that fits
 * the card out of the image, or compiles its PTX.
 */
#include "runtime/cuda/images.h"
#include "runtime/cuda/internal.h"

#include <stdio.h>
#include <string.h>

struct qn_cuda_fn {
    qn_cuda_fn *next;
    CUfunction handle;
    const qn_cuda_image *image;
    size_t shared; /* dynamic bytes that launches may have; code.lock */
    char name[];
};

CUfunction qn_cuda_fn_handle(const qn_cuda_fn *fn)
{
    return fn->handle;
}

const char *qn_cuda_fn_name(const qn_cuda_fn *fn)
{
    return fn->name;
}

qn_status qn_cuda_code_init(qn_cuda_device *d, qn_error *err)
{
    size_t n;
    (void)qn_cuda_images(&n);
    d->code.modules = qn_calloc(n, sizeof(CUmodule));
    return d->code.modules
               ? QN_OK
               : qn_fail(err, QN_NO_MEMORY, "out of memory for %zu modules", n);
}

void qn_cuda_code_release(qn_cuda_device *d)
{
    size_t n;
    (void)qn_cuda_images(&n);
    for (size_t i = 0; d->code.modules && i < n; i++)
        if (d->code.modules[i])
            qn_cuda_note(d, d->cu.module_unload(d->code.modules[i]),
                         "cuModuleUnload");
    qn_free(d->code.modules);
    for (qn_cuda_fn *fn = d->code.functions, *next; fn; fn = next) {
        next = fn->next;
        qn_free(fn);
    }
    d->code.modules = NULL;
    d->code.functions = NULL;
}

static qn_cuda_fn *known(const qn_cuda_device *d, const qn_cuda_image *image,
                         const char *name)
{
    for (qn_cuda_fn *fn = d->code.functions; fn; fn = fn->next)
        if (fn->image == image && !strcmp(fn->name, name))
            return fn;
    return NULL;
}

static qn_status load(qn_cuda_device *d, const qn_cuda_image *image,
                      CUmodule *module, qn_error *err)
{
    if (*module)
        return QN_OK;
    CUmodule m = NULL;
    CUresult r = d->cu.module_load(&m, image->start);
    if (r == CUDA_ERROR_NO_BINARY_FOR_GPU)
        return qn_fail(err, QN_UNSUPPORTED,
                       "%s: this build has no device code of '%s' for "
                       "capability %d.%d, only for %s",
                       d->base.label, image->family, d->limits.capability / 10,
                       d->limits.capability % 10, QN_CUDA_ARCH_TEXT);
    if (r == CUDA_SUCCESS)
        *module = m;
    return qn_cuda_check(d, r, err, "loading the device code of '%s'",
                         image->family);
}

static qn_status look_up(qn_cuda_device *d, const qn_cuda_image *image,
                         CUmodule module, const char *name, qn_cuda_fn **out,
                         qn_error *err)
{
    CUfunction handle = NULL;
    CUresult r = d->cu.module_function(&handle, module, name);
    if (r == CUDA_ERROR_NOT_FOUND)
        return qn_fail(err, QN_INTERNAL,
                       "the device code of '%s' has no function '%s'",
                       image->family, name);
    qn_status st = qn_cuda_check(d, r, err, "looking up %s", name);
    if (st != QN_OK)
        return st;
    size_t len = strlen(name);
    qn_cuda_fn *fn = qn_calloc(1, sizeof *fn + len + 1);
    if (!fn)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a function");
    fn->handle = handle;
    fn->image = image;
    memcpy(fn->name, name, len);
    fn->next = d->code.functions;
    d->code.functions = fn;
    *out = fn;
    return QN_OK;
}

qn_status qn_cuda_find(qn_accel *accel, const char *family, const char *name,
                       const qn_cuda_fn **out, qn_error *err)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    const qn_cuda_image *image = NULL, *images;
    qn_cuda_fn *fn = NULL;
    size_t n, at = 0;
    *out = NULL;
    images = qn_cuda_images(&n);
    for (; !image && at < n; at += !image)
        if (!strcmp(images[at].family, family))
            image = &images[at];
    if (!image)
        return qn_fail(err, QN_INTERNAL, "no device code of a family '%s'",
                       family);
    pthread_mutex_lock(&d->code.lock);
    fn = known(d, image, name);
    pthread_mutex_unlock(&d->code.lock);
    if (fn) {
        *out = fn;
        return QN_OK;
    }
    /* loading allocates on the card */
    qn_status st = qn_cuda_enter_blocking(d, err);
    if (st != QN_OK)
        return st;
    pthread_mutex_lock(&d->code.lock);
    fn = known(d, image, name); /* another thread may have been faster */
    if (!fn)
        st = load(d, image, &d->code.modules[at], err);
    if (!fn && st == QN_OK)
        st = look_up(d, image, d->code.modules[at], name, &fn, err);
    pthread_mutex_unlock(&d->code.lock);
    qn_cuda_gate_leave(d);
    *out = fn;
    return st;
}

qn_status qn_cuda_shared(qn_accel *accel, const qn_cuda_fn *fn, size_t bytes,
                         qn_error *err)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    if (bytes > d->limits.shared_max)
        return qn_fail(err, QN_TOO_LARGE,
                       "%s: %s wants %zu bytes of shared memory, a block can "
                       "have %zu",
                       d->base.label, fn->name, bytes, d->limits.shared_max);
    if (bytes <= d->limits.shared_static)
        return QN_OK;
    qn_status st = qn_cuda_enter(d, err);
    if (st != QN_OK)
        return st;
    /* never lowered: plans made before count on what they asked for */
    qn_cuda_fn *own = (qn_cuda_fn *)(uintptr_t)fn;
    pthread_mutex_lock(&d->code.lock);
    if (bytes > own->shared) {
        CUresult r = d->cu.function_set(
            fn->handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            (int)bytes);
        st = qn_cuda_check(d, r, err, "%s: %zu bytes of shared memory", fn->name,
                           bytes);
        if (st == QN_OK)
            own->shared = bytes;
    }
    pthread_mutex_unlock(&d->code.lock);
    return st;
}
