/* SPDX-License-Identifier: Apache-2.0 */
/*
 * [N, C, H, W] <-> [N, H, W, C]: per image a transpose of a C x HW matrix, in
 * square tiles so that both sides stay in the first-level cache.
 */
#include "runtime/cpu/tables.h"

#include <string.h>

enum { TILE = 16 };

typedef struct job {
    const char *src;
    char *dst;
    size_t size; /* of an element */
    int64_t rows, cols; /* of src, per image; dst is cols x rows */
} job;

#define DEFINE_TILE(type)                                                      \
    static void tile_##type(const void *src, void *dst, int64_t rows,          \
                            int64_t cols, int64_t r0, int64_t c0)              \
    {                                                                          \
        const type *s = src;                                                   \
        type *d = dst;                                                         \
        int64_t r1 = r0 + TILE < rows ? r0 + TILE : rows;                      \
        int64_t c1 = c0 + TILE < cols ? c0 + TILE : cols;                      \
        for (int64_t c = c0; c < c1; c++)                                      \
            for (int64_t r = r0; r < r1; r++)                                  \
                d[c * rows + r] = s[r * cols + c];                             \
    }
DEFINE_TILE(uint8_t)
DEFINE_TILE(uint16_t)
DEFINE_TILE(uint32_t)
DEFINE_TILE(uint64_t)

static void tile(const job *j, const char *src, char *dst, int64_t r, int64_t c)
{
    switch (j->size) {
    case 1:
        tile_uint8_t(src, dst, j->rows, j->cols, r, c);
        break;
    case 2:
        tile_uint16_t(src, dst, j->rows, j->cols, r, c);
        break;
    case 4:
        tile_uint32_t(src, dst, j->rows, j->cols, r, c);
        break;
    default:
        tile_uint64_t(src, dst, j->rows, j->cols, r, c);
        break;
    }
}

/* Item: one band of TILE source rows of one image. */
static void bands(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    int64_t per_image = (j->rows + TILE - 1) / TILE;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        size_t image = (size_t)(i / per_image) * (size_t)j->rows *
                       (size_t)j->cols * j->size;
        int64_t r = i % per_image * TILE;
        for (int64_t c = 0; c < j->cols; c += TILE)
            tile(j, j->src + image, j->dst + image, r, c);
    }
}

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return qn_dtype_size(in[0]) <= 8;
}

static qn_status run(const qn_launch *k, int64_t rows, int64_t cols)
{
    job j = { .src = k->in[0].data, .dst = k->out[0].data,
              .size = qn_dtype_size(k->in[0].dtype), .rows = rows,
              .cols = cols };
    int64_t items = k->in[0].shape.dims[0] * ((rows + TILE - 1) / TILE);
    int64_t grain = cols ? 16384 / (cols * TILE) + 1 : 1;
    if (rows && cols)
        qn_parallel(k->team, items, grain, bands, &j);
    return QN_OK;
}

static qn_status to_last(const qn_launch *k)
{
    const int64_t *d = k->in[0].shape.dims;
    return run(k, d[1], d[2] * d[3]);
}

static qn_status to_first(const qn_launch *k)
{
    const int64_t *d = k->in[0].shape.dims;
    return run(k, d[1] * d[2], d[3]);
}

static const qn_kernel rows[] = {
    { .domain = "ai.quern", .name = "ToChannelsLast", .since = 1, .until = 1,
      .supports = supports, .launch = to_last },
    { .domain = "ai.quern", .name = "ToChannelsFirst", .since = 1, .until = 1,
      .supports = supports, .launch = to_first },
};

QN_KERNEL_TABLE(qn_cpu_order, rows);
