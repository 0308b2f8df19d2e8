/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's envelope as a tree in a region. Jansson parses it; this is the
 * only place in the server that knows.
 */
#ifndef QN_CODEC_TREE_H
#define QN_CODEC_TREE_H

#include "runtime/base/alloc.h"
#include "server/codec/param.h"

/*
 * Parse one JSON object. Keys twice, inner NULs and integers outside INT64 are
 * refused. On QN_FORMAT `*at` is the byte where the parser stopped, and the
 * error's text has no place in it. QN_NO_MEMORY when the heap is used up.
 */
QN_NODISCARD qn_status qn_tree_parse(const char *text, size_t len,
                                     qn_region *region, qn_params *out,
                                     size_t *at, qn_error *err);

#endif
