/* SPDX-License-Identifier: Apache-2.0 */
/* What a container allows is said in small files; both the count of cores and
 * the memory limit read them. */
#ifndef QN_BASE_CGROUP_H
#define QN_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* The start of a file as NUL-terminated text; false if it cannot be read. */
bool qn_read_text(const char *path, char *buf, size_t size);

/*
 * This process's path below a controller's mount, "" if unknown; "" as
 * controller is version 2. From lines like "0::/path" (v2) and
 * "4:cpu,cpuacct:/path" (v1).
 */
void qn_cgroup_path(const char *controller, char *out, size_t size);

#endif
