/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: the model and the external data beside it. A location in a model is
 * text from outside: it may name a file below the model's folder, and nothing
 * else, whatever symbolic links there are on the way.
 *
 * Mappings are private and read-only. A file that is cut short while it is
 * mapped takes the process down with SIGBUS, as with every mapped file: replace
 * models by renaming, not by writing into them.
 */
#include "models/onnx/reader.h"
#include "runtime/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

qn_status qn_onnx_map(int fd, const char *path, const uint8_t **bytes,
                      size_t *len, qn_error *err)
{
    struct stat st;
    qn_status status = QN_OK;

    *bytes = NULL;
    *len = 0;
    if (fstat(fd, &st) != 0) {
        status = qn_fail(err, QN_IO, "%.400s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        status = qn_fail(err, QN_IO, "%.400s is not a regular file", path);
    } else if (st.st_size > 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd,
                         0);
        if (map == MAP_FAILED) {
            status = qn_fail(err, QN_IO, "%.400s: cannot map %lld bytes: %s",
                             path, (long long)st.st_size, strerror(errno));
        } else {
            *bytes = map;
            *len = (size_t)st.st_size;
        }
    }
    close(fd);
    return status;
}

/* Relative, no empty, "." or ".." component, nothing that ends a C string. */
static bool location_ok(qn_span s)
{
    size_t from = 0;

    if (!s.len || s.len >= PATH_MAX || memchr(s.s, 0, s.len))
        return false;
    while (s.len > 2 && s.s[0] == '.' && s.s[1] == '/') {
        s.s += 2;
        s.len -= 2;
    }
    for (size_t i = 0; i <= s.len; i++) {
        if (i < s.len && s.s[i] != '/')
            continue;
        qn_span part = { s.s + from, i - from };
        if (!part.len || qn_span_is(part, ".") || qn_span_is(part, ".."))
            return false;
        from = i + 1;
    }
    return true;
}

/* The real path of a location, checked to lie in the folder; free() it. */
static qn_status locate(qn_reader *r, qn_span location, char **out)
{
    const char *folder = r->file->folder;
    int len = (int)(location.len < 200 ? location.len : 200);
    size_t n, size;

    *out = NULL;
    if (!folder)
        return qn_fail(r->err, QN_UNSUPPORTED,
                       "external data of a model that is not a file");
    if (!location_ok(location) || !qn_utf8_valid(location.s, location.len))
        return qn_fail(r->err, QN_INVALID,
                       "external data at '%.*s': not a path below the model's "
                       "folder", len, location.s);
    n = strlen(folder);
    size = n + location.len + 2;
    char *path = qn_region_alloc(&r->scratch, size, 1);
    if (!path)
        return qn_reader_no_memory(r);
    memcpy(path, folder, n);
    path[n] = '/';
    memcpy(path + n + 1, location.s, location.len);
    char *real = realpath(path, NULL);
    if (!real)
        return qn_fail(r->err, errno == ENOENT ? QN_NOT_FOUND : QN_IO,
                       "external data '%.*s': %s", len, location.s,
                       strerror(errno));
    /* the folder's own path is real, and "/" is no folder for models */
    if (strncmp(real, folder, n) != 0 || real[n] != '/') {
        free(real);
        return qn_fail(r->err, QN_INVALID,
                       "external data '%.*s' is a link out of the model's "
                       "folder", len, location.s);
    }
    *out = real;
    return QN_OK;
}

/* `name`, for messages, is what the model says: paths are not for clients. */
static qn_status map_external(qn_reader *r, const char *path, const char *name,
                              const qn_external **out)
{
    qn_external *e;

    for (e = r->file->externals; e; e = e->next)
        if (!strcmp(e->path, path)) {
            *out = e;
            return QN_OK;
        }
    e = qn_region_alloc(&r->file->region, 1, sizeof *e);
    char *copy = qn_region_strndup(&r->file->region, path, strlen(path));
    if (!e || !copy)
        return qn_reader_no_memory(r);
    e->path = copy;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return qn_fail(r->err, QN_IO, "%s: %s", name, strerror(errno));
    qn_status st = qn_onnx_map(fd, name, &e->bytes, &e->len, r->err);
    if (st != QN_OK)
        return st;
    e->next = r->file->externals;
    r->file->externals = e;
    r->file->info.file_bytes += e->len;
    *out = e;
    return QN_OK;
}

qn_status qn_onnx_external(qn_reader *r, qn_span location, uint64_t offset,
                           uint64_t len, const uint8_t **bytes, size_t *n)
{
    const qn_external *e = NULL;
    char *path, name[240];
    qn_status st = locate(r, location, &path);

    if (st != QN_OK)
        return st;
    snprintf(name, sizeof name, "external data '%.*s'",
             (int)(location.len < 200 ? location.len : 200), location.s);
    st = map_external(r, path, name, &e);
    free(path);
    if (st != QN_OK)
        return st;
    if (offset > e->len || (len != UINT64_MAX && len > e->len - offset))
        return qn_fail(r->err, QN_FORMAT,
                       "external data '%.*s': %llu bytes at %llu, the file has "
                       "%zu",
                       (int)(location.len < 200 ? location.len : 200),
                       location.s,
                       (unsigned long long)(len == UINT64_MAX ? 0 : len),
                       (unsigned long long)offset, e->len);
    *n = len == UINT64_MAX ? e->len - (size_t)offset : (size_t)len;
    *bytes = e->bytes ? e->bytes + offset : (const uint8_t *)"";
    return QN_OK;
}
