/* SPDX-License-Identifier: Apache-2.0 */
/* The tile is written once and compiled per instruction set: whole CNNs run
 * through it in the tests, on two cores. A macro with a name per accumulator:
 * gcc lowers a vector type by the target of the function that names it, and
 * keeps arrays of vectors in memory (12 against 70 GFLOP/s). */
#include "tests/cuda/emu/libmac.h"

#include <string.h>

#define HALF (QN_MAC_COLS / 2)
typedef float row __attribute__((vector_size(HALF * sizeof(float))));
typedef row loose __attribute__((aligned(4), may_alias));

#define FIRST(i) row lo##i = { 0 }, hi##i = { 0 };
#define STEP(i)                                                                \
    lo##i += a[i] * lo;                                                        \
    hi##i += a[i] * hi;
#define LAST(i)                                                                \
    *(loose *)(out + (i)*QN_MAC_COLS) = lo##i;                                 \
    *(loose *)(out + (i)*QN_MAC_COLS + HALF) = hi##i;
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define TILE()                                                                 \
    EACH(FIRST)                                                                \
    for (size_t l = 0; l < n; l++, a += QN_MAC_ROWS, b += QN_MAC_COLS) {       \
        row lo = *(const loose *)b, hi = *(const loose *)(b + HALF);           \
        EACH(STEP)                                                             \
    }                                                                          \
    EACH(LAST)

static void tile_plain(const float *a, const float *b, size_t n, float *out)
{
    TILE()
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void
tile_avx2(const float *a, const float *b, size_t n, float *out)
{
    TILE()
}
#endif

void qn_mac_tile(const float *a, const float *b, size_t n, float *out)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        tile_avx2(a, b, n, out);
        return;
    }
#endif
    tile_plain(a, b, n, out);
}
