/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/dtype.h"

#include <string.h>

typedef struct dtype_row {
    const char *onnx, *wire;
    uint8_t bytes, bits;
} dtype_row;

static const dtype_row rows[QN_DTYPE_COUNT] = {
    [QN_NONE] = { "none", "NONE", 0, 0 },
#define QN_DTYPE_ROW(name, number, onnx, wire, bytes, bits)                    \
    [number] = { onnx, wire, bytes, (bits) ? (bits) : 8 * (bytes) },
    QN_DTYPE_LIST(QN_DTYPE_ROW)
#undef QN_DTYPE_ROW
};

bool qn_dtype_valid(int number)
{
    return number > QN_NONE && number < QN_DTYPE_COUNT;
}

static const dtype_row *row(qn_dtype dtype)
{
    return &rows[qn_dtype_valid((int)dtype) ? dtype : QN_NONE];
}

size_t qn_dtype_size(qn_dtype dtype)
{
    return row(dtype)->bytes;
}

unsigned qn_dtype_file_bits(qn_dtype dtype)
{
    return row(dtype)->bits;
}

const char *qn_dtype_name(qn_dtype dtype)
{
    return row(dtype)->onnx;
}

const char *qn_dtype_wire(qn_dtype dtype)
{
    return row(dtype)->wire;
}

qn_dtype qn_dtype_from_wire(const char *name, size_t len)
{
    for (int i = 1; i < QN_DTYPE_COUNT; i++)
        if (strlen(rows[i].wire) == len && !memcmp(rows[i].wire, name, len))
            return (qn_dtype)i;
    return QN_NONE;
}
