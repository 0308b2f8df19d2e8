/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 128 leading bits of the powers of five that doubles need (reading: up to
 * 308, printing: up to 324), {high, low}:
 * row q - QN_POWERS_FIRST holds 5^q scaled to [2^127, 2^128), rounded down for
 * q >= 0 and up for q < 0. 10 KB, written by powers.py.
 *
 * Reading multiplies by them (D. Lemire, "Number Parsing at a Gigabyte per
 * Second", 2021); printing takes 126 of the bits (R. Giulietti, "The Schubfach
 * way to render doubles", 2021).
 */
#ifndef QN_CODEC_POWERS_H
#define QN_CODEC_POWERS_H

#include <stdint.h>

enum { QN_POWERS_FIRST = -342, QN_POWERS_LAST = 324 };

extern const uint64_t qn_powers_of_five[][2];

#endif
