/* SPDX-License-Identifier: Apache-2.0 */
/* 128-bit products: gcc and clang have the type on every 64-bit target. */
#ifndef QN_CODEC_WIDE_H
#define QN_CODEC_WIDE_H

__extension__ typedef unsigned __int128 qn_u128;

#endif
