/* SPDX-License-Identifier: Apache-2.0 */
/* The one hot loop of the library stand-ins: a tile of outer products. */
#ifndef QN_TESTS_CUDA_EMU_LIBMAC_H
#define QN_TESTS_CUDA_EMU_LIBMAC_H

#include <stddef.h>

/* A tile has 6 rows and 16 columns: 6 accumulators of 16 floats and one loaded
 * row stay in 15 of the 16 registers of AVX2. */
#define QN_MAC_ROWS 6
#define QN_MAC_COLS 16

/**
 * out[i * 16 + j] = sum over l in [0, n) of a[l * 6 + i] * b[l * 16 + j],
 * added in order of l, in float; fused multiply-add where the CPU has it.
 *
 *   a    [n][6], packed left operand
 *   b    [n][16], packed right operand
 *   out  [6][16], overwritten
 *
 * Any thread.
 */
void qn_mac_tile(const float *a, const float *b, size_t n, float *out);

#endif /* QN_TESTS_CUDA_EMU_LIBMAC_H */
