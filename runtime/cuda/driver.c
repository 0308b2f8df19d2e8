/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const char libcuda[] = "libcuda.so.1";

static const qn_cuda_symbol symbols[] = {
#define SYMBOL(field, function)                                                \
    { QN_CUDA_NAME(function), offsetof(qn_cuda_driver, field) },
    QN_CUDA_DRIVER_LIST(SYMBOL)
#undef SYMBOL
};

qn_status qn_cuda_library_open(const char *name, void **out, qn_error *err)
{
    /* NODELETE: these libraries start threads and keep handlers. */
    *out = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (*out)
        return QN_OK;
    const char *why = dlerror();
    return qn_fail(err, QN_NOT_FOUND, "%s cannot be opened: %s", name,
                   why ? why : "no reason given");
}

qn_status qn_cuda_library_bind(void *library, const char *name,
                               const qn_cuda_symbol *list, size_t n, void *table,
                               qn_error *err)
{
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(library, list[i].name);
        if (!at)
            return qn_fail(err, QN_UNSUPPORTED,
                           "%s has no function %s: it is too old", name,
                           list[i].name);
        memcpy((char *)table + list[i].field, &at, sizeof at);
    }
    return QN_OK;
}

void qn_cuda_library_close(void *library)
{
    if (library)
        dlclose(library);
}

static qn_status failed(const qn_cuda_driver *cu, CUresult r, const char *what,
                        qn_error *err)
{
    const char *text = NULL;
    (void)cu->error_text(r, &text);
    return qn_fail(err, QN_DEVICE, "the CUDA driver does not start: %s: %s (%d)",
                   what, text ? text : "unknown error", (int)r);
}

static qn_status start(qn_cuda_driver *cu, int *devices, qn_error *err)
{
    CUresult r = cu->driver_version(&cu->version);
    if (r != CUDA_SUCCESS)
        return failed(cu, r, "cuDriverGetVersion", err);
    /* code made by one major version needs a driver of that or a later one */
    int need = CUDA_VERSION / 1000 * 1000;
    if (cu->version < need)
        return qn_fail(err, QN_UNSUPPORTED,
                       "the CUDA driver is too old: it can do CUDA %d.%d, "
                       "%d.%d is needed",
                       cu->version / 1000, cu->version % 1000 / 10, need / 1000,
                       need % 1000 / 10);
    r = cu->init(0);
    if (r == CUDA_SUCCESS)
        r = cu->device_count(devices);
    if (r == CUDA_ERROR_NO_DEVICE || (r == CUDA_SUCCESS && *devices < 1))
        return qn_fail(err, QN_NOT_FOUND,
                       "the CUDA driver is there, but no device that it can "
                       "use");
    return r == CUDA_SUCCESS ? QN_OK : failed(cu, r, "cuInit", err);
}

qn_status qn_cuda_driver_open(qn_cuda_driver *out, int *devices, qn_error *err)
{
    memset(out, 0, sizeof *out);
    *devices = 0;
    qn_status st = qn_cuda_library_open(libcuda, &out->library, err);
    if (st == QN_OK)
        st = qn_cuda_library_bind(out->library, libcuda, symbols,
                                  sizeof symbols / sizeof symbols[0], out, err);
    if (st == QN_OK)
        st = start(out, devices, err);
    if (st != QN_OK)
        *devices = 0;
    return st;
}

void qn_cuda_driver_close(qn_cuda_driver *driver)
{
    qn_cuda_library_close(driver->library);
    driver->library = NULL;
}
