/* SPDX-License-Identifier: Apache-2.0 */
/* How many cores are ours: a container's quota counts, not the host's size. */
#include "runtime/base/cgroup.h"
#include "runtime/device/device.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ceil_div(long long a, long long b)
{
    long long n = (a + b - 1) / b;
    return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}

static int quota_v2(void)
{
    char group[1024], path[1200], text[128];
    int best = 0;
    qn_cgroup_path("", group, sizeof group);
    /* every ancestor may set a quota; inside a container the own path is "/" */
    for (;;) {
        long long quota, period;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        if (qn_read_text(path, text, sizeof text) &&
            sscanf(text, "%lld %lld", &quota, &period) == 2 && quota > 0 &&
            period > 0) {
            int n = ceil_div(quota, period);
            best = best && best < n ? best : n;
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            return best;
        *slash = 0;
    }
}

static int quota_v1(void)
{
    char group[1024], path[1200], quota[64], period[64];
    qn_cgroup_path("cpu", group, sizeof group);
    const char *const tries[] = { group, "" };
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us",
                 tries[i]);
        if (!qn_read_text(path, quota, sizeof quota))
            continue;
        snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us",
                 tries[i]);
        if (!qn_read_text(path, period, sizeof period))
            continue;
        long long q = strtoll(quota, NULL, 10), p = strtoll(period, NULL, 10);
        return q > 0 && p > 0 ? ceil_div(q, p) : 0;
    }
    return 0;
}

int qn_cpu_count(void)
{
    cpu_set_t set;
    int n = 1, quota;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
    else if (sysconf(_SC_NPROCESSORS_ONLN) > 0)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    quota = quota_v2();
    if (!quota)
        quota = quota_v1();
    if (quota && quota < n)
        n = quota;
    return n < 1 ? 1 : n;
}
