/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char driver_name[] = "libcuda.so.1";
static const char plugin_name[] = "libquern-cuda.so";
static const char plugin_dir[] = "QUERN_PLUGIN_DIR";

/* ---- where the plug-in is ---- */

/* dir/tail/name in `path`; false if it is too long or cannot be read. */
static bool at(char path[PATH_MAX], const char *dir, const char *tail)
{
    int n = snprintf(path, PATH_MAX, "%s/%s%s", dir, tail, plugin_name);
    return n > 0 && n < PATH_MAX && access(path, R_OK) == 0;
}

static qn_status find_plugin(char path[PATH_MAX], qn_error *err)
{
    char dir[PATH_MAX];
    const char *given = secure_getenv(plugin_dir);
    if (given && given[0]) {
        if (given[0] != '/')
            return qn_fail(err, QN_INVALID, "%s '%.300s' is not an absolute path",
                           plugin_dir, given);
        if (at(path, given, ""))
            return QN_OK;
        return qn_fail(err, QN_NOT_FOUND, "no %s in '%.300s', where %s points",
                       plugin_name, given, plugin_dir);
    }
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    char *slash = n > 0 ? memrchr(dir, '/', (size_t)n) : NULL;
    if (!slash)
        return qn_fail(err, QN_NOT_FOUND,
                       "no %s: /proc/self/exe does not say where to look",
                       plugin_name);
    *slash = '\0';
    if (at(path, dir, "") || at(path, dir, "../lib/quern/"))
        return QN_OK;
    return qn_fail(err, QN_NOT_FOUND,
                   "a CUDA driver is here, but no %s in '%.200s' or its "
                   "../lib/quern: build it with `make cuda`",
                   plugin_name, dir);
}

/* ---- opening ---- */

static const char *why(void)
{
    const char *text = dlerror();
    return text ? text : "no reason given";
}

static qn_status load(qn_accels *a, const char *path, qn_error *err)
{
    qn_plugin_query_fn query;
    a->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!a->library)
        return qn_fail(err, QN_NOT_FOUND, "%s does not load: %s", plugin_name,
                       why());
    void *symbol = dlsym(a->library, "qn_plugin_query");
    if (!symbol)
        return qn_fail(err, QN_UNSUPPORTED, "'%.300s' is no plug-in of Quern",
                       path);
    memcpy(&query, &symbol, sizeof query);
    a->plugin = query(QN_PLUGIN_ABI);
    return a->plugin ? QN_OK
                     : qn_fail(err, QN_UNSUPPORTED,
                               "'%.300s' is of another version of Quern", path);
}

static void say(const qn_log *log, qn_accel *accel, const qn_plugin *plugin)
{
    qn_accel_info i;
    accel->ops->info(accel, &i);
    qn_logf(log, QN_LOG_INFO,
            "%s: %s, sm_%d, %d multiprocessors, %.1f of %.1f GiB free, driver "
            "for CUDA %s, %s; plug-in: %s",
            accel->label, i.name, i.capability, i.multiprocessors,
            (double)i.memory_free / 0x1p30, (double)i.memory_total / 0x1p30,
            i.driver, i.libraries, plugin->version);
}

static qn_status open_devices(qn_accels *a, const int *ordinals, uint32_t n,
                              const qn_log *log, qn_error *err)
{
    qn_host_api host = { 0 };
    int there = a->plugin->count(err);
    if (log)
        host.log = *log;
    if (there < 1)
        return err && err->status != QN_OK
                   ? err->status
                   : qn_fail(err, QN_NOT_FOUND, "no CUDA device");
    if (!n)
        n = there < QN_ACCEL_MAX ? (uint32_t)there : QN_ACCEL_MAX;
    for (uint32_t i = 0; i < n; i++) {
        qn_status st = a->plugin->open(ordinals ? ordinals[i] : (int)i, &host,
                                       &a->accel[i], err);
        if (st != QN_OK)
            return st;
        a->n = i + 1;
    }
    return QN_OK;
}

static qn_status check(const int *ordinals, uint32_t n, qn_error *err)
{
    if (n > QN_ACCEL_MAX || (n && !ordinals))
        return qn_fail(err, QN_INVALID,
                       "%u CUDA devices by number, at most %d", n,
                       QN_ACCEL_MAX);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (ordinals[i] == ordinals[k])
                return qn_fail(err, QN_INVALID, "cuda:%d is given twice",
                               ordinals[i]);
    return QN_OK;
}

static qn_status open_all(qn_accels *a, const int *ordinals, uint32_t n,
                          const qn_log *log, qn_error *err)
{
    char path[PATH_MAX];
    void *driver = dlopen(driver_name, RTLD_LAZY | RTLD_LOCAL);
    if (!driver)
        return qn_fail(err, QN_NOT_FOUND,
                       "no CUDA driver: %s; NVIDIA's driver 580 or newer "
                       "brings it", why());
    qn_status st = find_plugin(path, err);
    if (st == QN_OK)
        st = load(a, path, err);
    if (st == QN_OK)
        st = open_devices(a, ordinals, n, log, err);
    /* the plug-in has opened it for itself, if it has come so far */
    dlclose(driver);
    return st;
}

qn_status qn_accels_open(const int *ordinals, uint32_t n, const qn_log *log,
                         qn_accels *out, qn_error *err)
{
    qn_error own = { 0 };
    memset(out, 0, sizeof *out);
    qn_status st = check(ordinals, n, &own);
    if (st == QN_OK)
        st = open_all(out, n ? ordinals : NULL, n, log, &own);
    if (st == QN_OK) {
        for (uint32_t i = 0; i < out->n; i++)
            say(log, out->accel[i], out->plugin);
        return QN_OK;
    }
    qn_accels_close(out);
    qn_logf(log, n ? QN_LOG_WARN : QN_LOG_INFO, "cuda is not used: %s",
            own.text);
    if (err)
        *err = own;
    return st;
}

void qn_accels_close(qn_accels *accels)
{
    while (accels->n > 0) {
        qn_accel *a = accels->accel[--accels->n];
        a->ops->free(a);
    }
    if (accels->library)
        dlclose(accels->library);
    memset(accels, 0, sizeof *accels);
}
