/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that a kernel finds in its data (an index outside of its axis, a
 * division by zero): written by device code, read by the host once the work
 * is complete. C and CUDA C++ share this file. */
#ifndef QN_CUDA_KERNELS_FAULT_H
#define QN_CUDA_KERNELS_FAULT_H

#include <stdint.h>

/* 0 means that no fault was recorded. */
enum qn_device_fault_code {
    QN_DEVICE_FAULT_NONE = 0,
    QN_DEVICE_FAULT_INDEX = 1,  /* value: the index, limit: the axis length */
    QN_DEVICE_FAULT_DIVIDE = 2, /* integer division by zero */
    QN_DEVICE_FAULT_SIZE = 3,   /* a computed size: value against limit */
    QN_DEVICE_FAULT_VALUE = 4,  /* any other value outside its domain */
};

/* Lies in device memory, zeroed before the first kernel of a run. The first
 * fault wins; which one is first among threads is not determined. */
struct qn_fault {
    uint32_t code; /* enum qn_device_fault_code; taken by compare and swap */
    uint32_t step; /* the launch that recorded it, see qn_fault_args */
    int64_t value; /* what was found */
    int64_t limit; /* what it had to stay below, where that has a meaning */
    int64_t unused[5];
};

/* Part of the arguments of a kernel that can fault. */
struct qn_fault_args {
    void *word;    /* struct qn_fault in device memory; NULL: not recorded */
    uint32_t step; /* the caller's number of this launch */
};

#endif
