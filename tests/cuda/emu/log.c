/* SPDX-License-Identifier: Apache-2.0 */
/* The log of what was executed; see emu.h. */
#include "tests/cuda/emu/internal.h"

#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qn_emu_entry *entries;
static size_t n_entries, capacity;
static bool on;           /* atomic */
static uint64_t sequence; /* atomic; written under lock */

bool log_on(void)
{
    return __atomic_load_n(&on, __ATOMIC_ACQUIRE);
}

uint64_t log_now(void)
{
    return __atomic_load_n(&sequence, __ATOMIC_ACQUIRE);
}

void log_add(const struct qn_emu_entry *entry)
{
    if (!log_on())
        return;
    pthread_mutex_lock(&lock);
    if (n_entries == capacity) {
        size_t more = capacity ? capacity * 2 : 1024;
        void *p = realloc(entries, more * sizeof *entries);
        if (!p)
            qn_emu_report("no memory for a log of %zu entries", more);
        entries = p;
        capacity = more;
    }
    entries[n_entries] = *entry;
    entries[n_entries].sequence =
        __atomic_fetch_add(&sequence, 1, __ATOMIC_RELEASE);
    n_entries++;
    pthread_mutex_unlock(&lock);
}

void qn_emu_log_mark(uint64_t tag)
{
    log_add(&(struct qn_emu_entry){ .kind = QN_EMU_MARK,
                                    .enqueued = log_now(),
                                    .tag = tag });
}

void qn_emu_log(bool start)
{
    pthread_mutex_lock(&lock);
    if (start) {
        n_entries = 0;
        __atomic_store_n(&sequence, 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&on, start, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

size_t qn_emu_log_read(struct qn_emu_entry *out, size_t most)
{
    pthread_mutex_lock(&lock);
    size_t n = n_entries < most ? n_entries : most;
    if (n)
        memcpy(out, entries, n * sizeof *out);
    n = n_entries;
    pthread_mutex_unlock(&lock);
    return n;
}
