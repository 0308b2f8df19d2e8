/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types. The numbers are those of ONNX TensorProto.DataType, so that
 * the reader needs no table and a dump can be read beside the model file.
 *
 * In memory the types under one byte (4 and 2 bits) take one byte an element,
 * holding the value (sign-extended for the signed ones): indexing kernels then
 * need no special case. Files and wires pack them; readers and codecs convert.
 */
#ifndef QN_BASE_DTYPE_H
#define QN_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* enum name, ONNX number, name in ONNX, name on the wire, bytes in memory,
 * bits in a file (0: as in memory) */
#define QN_DTYPE_LIST(X)                                                       \
    X(F32, 1, "float", "FP32", 4, 0)                                           \
    X(U8, 2, "uint8", "UINT8", 1, 0)                                           \
    X(I8, 3, "int8", "INT8", 1, 0)                                             \
    X(U16, 4, "uint16", "UINT16", 2, 0)                                        \
    X(I16, 5, "int16", "INT16", 2, 0)                                          \
    X(I32, 6, "int32", "INT32", 4, 0)                                          \
    X(I64, 7, "int64", "INT64", 8, 0)                                          \
    X(STRING, 8, "string", "BYTES", 16, 0)                                     \
    X(BOOL, 9, "bool", "BOOL", 1, 0)                                           \
    X(F16, 10, "float16", "FP16", 2, 0)                                        \
    X(F64, 11, "double", "FP64", 8, 0)                                         \
    X(U32, 12, "uint32", "UINT32", 4, 0)                                       \
    X(U64, 13, "uint64", "UINT64", 8, 0)                                       \
    X(C64, 14, "complex64", "COMPLEX64", 8, 0)                                 \
    X(C128, 15, "complex128", "COMPLEX128", 16, 0)                             \
    X(BF16, 16, "bfloat16", "BF16", 2, 0)                                      \
    X(F8E4M3FN, 17, "float8e4m3fn", "FP8_E4M3FN", 1, 0)                        \
    X(F8E4M3FNUZ, 18, "float8e4m3fnuz", "FP8_E4M3FNUZ", 1, 0)                  \
    X(F8E5M2, 19, "float8e5m2", "FP8_E5M2", 1, 0)                              \
    X(F8E5M2FNUZ, 20, "float8e5m2fnuz", "FP8_E5M2FNUZ", 1, 0)                  \
    X(U4, 21, "uint4", "UINT4", 1, 4)                                          \
    X(I4, 22, "int4", "INT4", 1, 4)                                            \
    X(F4E2M1, 23, "float4e2m1", "FP4_E2M1", 1, 4)                              \
    X(F8E8M0, 24, "float8e8m0", "FP8_E8M0", 1, 0)                              \
    X(U2, 25, "uint2", "UINT2", 1, 2)                                          \
    X(I2, 26, "int2", "INT2", 1, 2)

typedef enum qn_dtype {
    QN_NONE = 0, /* an absent optional tensor */
#define QN_DTYPE_ENUM(name, number, onnx, wire, bytes, bits) QN_##name = number,
    QN_DTYPE_LIST(QN_DTYPE_ENUM)
#undef QN_DTYPE_ENUM
        QN_DTYPE_COUNT
} qn_dtype;

/* A set of types: bit n stands for type n. */
typedef uint32_t qn_dtypes;
#define QN_BIT(name) ((qn_dtypes)1 << QN_##name)

#define QN_TYPES_IEEE (QN_BIT(F16) | QN_BIT(F32) | QN_BIT(F64))
#define QN_TYPES_FLOAT (QN_TYPES_IEEE | QN_BIT(BF16))
#define QN_TYPES_SIGNED (QN_BIT(I8) | QN_BIT(I16) | QN_BIT(I32) | QN_BIT(I64))
#define QN_TYPES_UNSIGNED (QN_BIT(U8) | QN_BIT(U16) | QN_BIT(U32) | QN_BIT(U64))
#define QN_TYPES_INT (QN_TYPES_SIGNED | QN_TYPES_UNSIGNED)
#define QN_TYPES_F8                                                            \
    (QN_BIT(F8E4M3FN) | QN_BIT(F8E4M3FNUZ) | QN_BIT(F8E5M2) |                  \
     QN_BIT(F8E5M2FNUZ))
#define QN_TYPES_COMPLEX (QN_BIT(C64) | QN_BIT(C128))
/* The 15 types of opset 1 to 12: all but bfloat16 and the small ones. */
#define QN_TYPES_CLASSIC                                                       \
    (QN_TYPES_IEEE | QN_TYPES_INT | QN_TYPES_COMPLEX | QN_BIT(BOOL) |          \
     QN_BIT(STRING))
#define QN_TYPES_ALL (((qn_dtypes)1 << QN_DTYPE_COUNT) - 2)

/* Bytes an element takes in memory; 0 for a number that is no type. */
size_t qn_dtype_size(qn_dtype dtype);
/* Bits an element takes in files and in raw wire data. */
unsigned qn_dtype_file_bits(qn_dtype dtype);
/* "float", "int64", ...; "none" for QN_NONE. Static storage. */
const char *qn_dtype_name(qn_dtype dtype);
/* "FP32", "INT64", ... as in the Open Inference Protocol. */
const char *qn_dtype_wire(qn_dtype dtype);
/* From the wire name; QN_NONE if there is no such type. */
qn_dtype qn_dtype_from_wire(const char *name, size_t len);
bool qn_dtype_valid(int number);

static inline bool qn_dtypes_has(qn_dtypes set, qn_dtype dtype)
{
    return dtype > QN_NONE && dtype < QN_DTYPE_COUNT && ((set >> dtype) & 1);
}

#endif
