/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory is ours: the cgroup's limit (v2 or v1), else the machine's. */
#include "runtime/exec/limits.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_text(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, size - 1);
    close(fd);
    if (n <= 0)
        return false;
    buf[n] = 0;
    return true;
}

static size_t read_limit(const char *path)
{
    char text[64];
    if (!read_text(path, text, sizeof text) || !strncmp(text, "max", 3))
        return 0;
    unsigned long long n = strtoull(text, NULL, 10);
    /* v1 says "none" with a number near 2^63 */
    return n >= ((unsigned long long)1 << 60) ? 0 : (size_t)n;
}

static size_t smaller(size_t a, size_t b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

/* The tightest limit on the way from this process's group to the root. */
static size_t group_limit(const char *mount, const char *file, const char *group)
{
    char at[1024], path[2048];
    size_t best = 0;
    snprintf(at, sizeof at, "%s", group);
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", mount, at, file);
        best = smaller(best, read_limit(path));
        char *slash = strrchr(at, '/');
        if (!slash)
            return best;
        *slash = 0;
    }
}

static size_t cgroup_limit(void)
{
    char text[4096], *save = NULL;
    size_t best = 0;
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return 0;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(line, ':');
        char *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        names++;
        if (!*names)
            best = smaller(best, group_limit("/sys/fs/cgroup", "memory.max",
                                             group));
        else if (strstr(names, "memory"))
            best = smaller(best, group_limit("/sys/fs/cgroup/memory",
                                             "memory.limit_in_bytes", group));
    }
    return best;
}

size_t qn_memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page > 0 ? (size_t)pages * (size_t)page
                                           : (size_t)1 << 30;
    return smaller(cgroup_limit(), machine);
}
