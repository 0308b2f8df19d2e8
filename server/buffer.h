/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for request bodies and answers. It comes from the pool, so it is
 * charged before it is used, and what one request gives back the next one of
 * a similar size gets, still mapped: growing and freeing a body on the heap
 * costs ten times its transfer.
 */
#ifndef QN_SERVER_BUFFER_H
#define QN_SERVER_BUFFER_H

#include "runtime/memory/pool.h"
#include "server/codec/json.h"

typedef struct qn_buffer {
    qn_lease lease;
    char *data;
    size_t len, cap;
} qn_buffer;

/* At least `cap` bytes. QN_TOO_LARGE: never; QN_NO_MEMORY: not now. */
QN_NODISCARD qn_status qn_buffer_init(qn_pool *pool, qn_mem cls, size_t cap,
                                      qn_buffer *out, qn_error *err);
/* Room for `cap` bytes in all, contents kept. The old memory is held until the
 * new is filled. */
QN_NODISCARD qn_status qn_buffer_grow(qn_pool *pool, qn_buffer *buffer,
                                      size_t cap, qn_error *err);
/* A zeroed one is fine. */
void qn_buffer_release(qn_pool *pool, qn_buffer *buffer);
/* Writes into the buffer, not past its end; set buffer->len from sink.len. */
qn_sink qn_buffer_sink(const qn_buffer *buffer);

#endif
