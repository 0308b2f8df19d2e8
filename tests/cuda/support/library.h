/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls of the vendor's libraries were made: the emulation counts them. */
#ifndef QN_TESTS_CUDA_LIBRARY_H
#define QN_TESTS_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

/* Forget what was counted. False on a real driver: it counts nothing. */
bool library_reset(void);
/* How often this was called, or this kernel ran, since then. */
uint64_t library_count(const char *what);
/* The nth call of api from now on gives this code instead; api NULL: none does. */
void library_fail(const char *api, uint64_t nth, int code);

#endif
