/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool qn_read_text(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, size - 1);
    close(fd);
    if (n < 0)
        return false;
    buf[n] = 0;
    return true;
}

void qn_cgroup_path(const char *controller, char *out, size_t size)
{
    char text[4096];
    out[0] = 0;
    if (!qn_read_text("/proc/self/cgroup", text, sizeof text))
        return;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        names++;
        if ((!*controller && !*names) ||
            (*controller && strstr(names, controller))) {
            snprintf(out, size, "%s", path);
            return;
        }
    }
}
