/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An accelerator for tests: its memory is the process's, its kernels are the
 * cpu's, and whatever is enqueued runs at once. Plans and runs take the ways of
 * real devices: copies, lanes, static memory in a space of its own. It captures
 * no graphs and has no collectives. Fresh memory reads as bytes 0xff.
 */
#ifndef QN_TESTS_SUPPORT_ACCEL_H
#define QN_TESTS_SUPPORT_ACCEL_H

#include "runtime/device/accel.h"

/* Fails the test if there is no memory. */
qn_accel *test_accel_new(void);
/* Fails the test if memory or lanes of it are left. */
void test_accel_free(qn_accel *accel);

#endif
