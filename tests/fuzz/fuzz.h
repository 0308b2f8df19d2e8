/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one function. With clang, -fsanitize=fuzzer supplies main();
 * without it tests/fuzz/main.c replays files and makes seeded mutations.
 */
#ifndef QN_TESTS_FUZZ_FUZZ_H
#define QN_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How many inputs were accepted, not refused: each target defines and counts
 * it, main.c prints it. Mutants that are all refused test little. */
extern unsigned long fuzz_accepted;

#endif
