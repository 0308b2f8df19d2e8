/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel families of the CUDA device are written with. A family is
 *
 *   runtime/cuda/<family>.c           rows (qn_kernel): host code, C11
 *   runtime/cuda/kernels/<family>.h   argument structs, for both sides
 *   runtime/cuda/kernels/<family>.cu  device code (kernels/device.h)
 *
 * and a line in tables.h. One image of device code is embedded per family.
 *
 *   prepare()  finds its function, chooses the grid, fills what it can of the
 *              arguments, puts both into the plan's region as `state`
 *   launch()   copies the arguments, adds addresses, enqueues; it makes no other
 *              driver call, allocates nothing, waits for nothing
 *
 * Tensors are row-major; addresses are aligned to 256 bytes for whole values,
 * to the element for views. Shapes were checked by infer(); data was not:
 * an index out of range is reported from the device with qn_device_fault().
 */
#ifndef QN_CUDA_KERNEL_H
#define QN_CUDA_KERNEL_H

#include "runtime/cuda/kernels/fault.h"
#include "runtime/device/accel.h"

typedef struct qn_cuda_fn qn_cuda_fn; /* a function of the loaded device code */

typedef struct qn_cuda_limits {
    int multiprocessors;
    int capability;       /* 90 */
    size_t shared_static; /* bytes a block has without asking: 48 KiB */
    size_t shared_max;    /* with asking; qn_cuda_shared() */
    int max_threads_sm;
    size_t l2_bytes;
} qn_cuda_limits;
const qn_cuda_limits *qn_cuda_limits_of(const qn_accel *accel);

/* The function `name` of family `family`; loads its image on first use
 * (blocking). For prepare() only. QN_INTERNAL if there is no such function. */
QN_NODISCARD qn_status qn_cuda_find(qn_accel *accel, const char *family,
                                    const char *name, const qn_cuda_fn **out,
                                    qn_error *err);
/* Lets launches of fn have this much dynamic shared memory. prepare() only. */
QN_NODISCARD qn_status qn_cuda_shared(qn_accel *accel, const qn_cuda_fn *fn,
                                      size_t bytes, qn_error *err);

typedef struct qn_cuda_grid {
    uint32_t grid[3];  /* blocks: x < 2^31, y and z < 65536; 0 counts as 1 */
    uint32_t block[3]; /* threads; 0 counts as 1 */
    uint32_t shared;   /* dynamic bytes */
} qn_cuda_grid;

/* Blocks of `threads` for n items of which a thread takes `each`, at most what
 * fills the card `waves` times over: for kernels that loop with a grid stride. */
qn_cuda_grid qn_cuda_grid_stride(const qn_accel *accel, int64_t n, int each,
                                 int threads, int waves);

/* ---- inside launch() ---- */

/* Enqueue; `args` is the kernel's one argument struct, copied. A grid without
 * blocks is no launch. Errors name the node and the function. */
QN_NODISCARD qn_status qn_cuda_launch(const qn_launch *k, const qn_cuda_fn *fn,
                                      const qn_cuda_grid *g, const void *args);
QN_NODISCARD qn_status qn_cuda_copy(const qn_launch *k, void *dst,
                                    const void *src, size_t bytes);
QN_NODISCARD qn_status qn_cuda_fill(const qn_launch *k, void *dst, int byte,
                                    size_t bytes);
/* words (at most 8) of 8 bytes from the device to k->counts, for finish(). */
QN_NODISCARD qn_status qn_cuda_read(const qn_launch *k, const void *src,
                                    unsigned words);
/* Where this launch reports faults of its data. */
struct qn_fault_args qn_cuda_fault(const qn_launch *k);

#endif
