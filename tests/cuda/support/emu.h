/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver's own functions (tests/cuda/emu/emu.h), for tests that
 * inject faults and delays. */
#ifndef QN_TESTS_CUDA_SUPPORT_EMU_H
#define QN_TESTS_CUDA_SUPPORT_EMU_H

#include "tests/cuda/emu/emu.h"

/* field, function */
#define TEST_EMU_LIST(X)                                                       \
    X(count, qn_emu_count)                                                     \
    X(reset_counts, qn_emu_reset_counts)                                       \
    X(fail_at, qn_emu_fail_at)                                                 \
    X(fail_none, qn_emu_fail_none)                                             \
    X(delays, qn_emu_delays)                                                   \
    X(revive, qn_emu_revive)                                                   \
    X(bytes_in_use, qn_emu_bytes_in_use)                                       \
    X(set_memory, qn_emu_set_memory)                                           \
    X(tag_thread, qn_emu_tag_thread)                                           \
    X(log, qn_emu_log)                                                         \
    X(log_mark, qn_emu_log_mark)                                               \
    X(log_read, qn_emu_log_read)

typedef struct test_emu {
#define TEST_EMU_FIELD(field, function) __typeof__(&function) field;
    TEST_EMU_LIST(TEST_EMU_FIELD)
#undef TEST_EMU_FIELD
} test_emu;

/* NULL where libcuda.so.1 is a real one, or none. The library stays open. */
const test_emu *test_emu_find(void);

#endif
