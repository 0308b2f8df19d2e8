/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory is ours: the cgroup's limit (v2 or v1), else the machine's. */
#include "runtime/exec/limits.h"

#include "runtime/base/cgroup.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t read_limit(const char *path)
{
    char text[64];
    if (!qn_read_text(path, text, sizeof text) || !strncmp(text, "max", 3))
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
    char v2[1024], v1[1024];
    qn_cgroup_path("", v2, sizeof v2);
    qn_cgroup_path("memory", v1, sizeof v1);
    size_t best = v2[0] ? group_limit("/sys/fs/cgroup", "memory.max", v2) : 0;
    if (v1[0])
        best = smaller(best, group_limit("/sys/fs/cgroup/memory",
                                         "memory.limit_in_bytes", v1));
    return best;
}

size_t qn_memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page > 0 ? (size_t)pages * (size_t)page
                                           : (size_t)1 << 30;
    return smaller(cgroup_limit(), machine);
}
