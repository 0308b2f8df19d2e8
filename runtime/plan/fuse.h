/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of fusion: fuse.c, fuse_attention.c, fuse_chain.c,
 * fuse_product.c. All of one plan's build, on its thread. */
#ifndef QN_PLAN_FUSE_H
#define QN_PLAN_FUSE_H

#include "runtime/plan/build.h"

/* A value's readers and producer; steps that were absorbed count no more. */
typedef struct qn_fuse_use {
    uint32_t uses;     /* readers, the model's outputs included */
    uint32_t reader;   /* the last of them */
    uint32_t producer; /* the last one; UINT32_MAX: not written by a step */
} qn_fuse_use;

/*
 * What fusion knows of the list of steps. It is gathered by qn_fuse_look() and
 * not kept up while steps are absorbed. What it says then errs on one side:
 * uses are too many, and producers too late, since a value's producer only ever
 * moves up to where an earlier step was. `n_values` may have grown since.
 */
typedef struct qn_fuse {
    qn_builder *b;
    qn_fuse_use *use; /* [n_values] */
    uint32_t n_values;
    uint32_t *jumps; /* [n_steps + 1] jumps among the steps before */
} qn_fuse;

QN_NODISCARD qn_status qn_fuse_look(qn_builder *b, qn_fuse *out);

/* Of values made since the look: many uses, no producer. */
qn_fuse_use qn_fuse_use_of(const qn_fuse *f, uint32_t value);
/* The step that writes it, if that is a launch of one output, of exact shapes,
 * which no pass has made or taken; else NULL. */
qn_bstep *qn_fuse_producer(const qn_fuse *f, uint32_t value);
/* The one step that reads `v`, if that is such a launch in the same straight
 * line as step i, which writes v; *at (may be NULL) its number. */
qn_bstep *qn_fuse_only_reader(const qn_fuse *f, uint32_t i, uint32_t v,
                              uint32_t *at);
/* Is the value there, in this space, before step i runs? */
bool qn_fuse_ready(const qn_fuse *f, uint32_t value, uint8_t space, uint32_t i);
/* A known constant of one element of f32, f16 or bf16, of this type. */
bool qn_fuse_scalar(const qn_fuse *f, uint32_t value, qn_dtype dtype,
                    float *out);
/* An ONNX operator's node that no pass has changed. */
bool qn_fuse_named(const qn_node *node, const char *name);
/* The step's work is done by another one. */
void qn_fuse_absorb(const qn_fuse *f, qn_bstep *s);
/* Give the step a copy of its node, once, which may be changed. */
QN_NODISCARD qn_status qn_fuse_own_node(const qn_fuse *f, qn_bstep *s,
                                        qn_node **out);

/* A node that a pass makes. */
typedef struct qn_fuse_new {
    const char *domain, *op;
    int opset;
    const qn_node *like; /* name, place, rank and order come from it */
    uint8_t space;
    uint32_t n_in;
    const uint32_t *in;  /* values; the node gets a copy */
    uint32_t n_attrs;
    const qn_attr *attrs; /* names are static; arrays are copied */
} qn_fuse_new;

/*
 * *out in the plan's region, with operator and kernel; NULL if there is no
 * operator, if it does not infer `shape` for these inputs, or the accelerator
 * has no kernel for it. Its `in` are the builder's numbers: kernels look only
 * which are there. QN_NO_MEMORY.
 */
QN_NODISCARD qn_status qn_fuse_make(const qn_fuse *f, const qn_fuse_new *of,
                                    qn_dtype dtype, const qn_shape *shape,
                                    qn_node **out);
/* Let the step run that node instead. QN_NO_MEMORY. */
QN_NODISCARD qn_status qn_fuse_become(const qn_fuse *f, qn_bstep *s,
                                      const qn_node *node, uint32_t n_in,
                                      const uint32_t *in, uint32_t out);

/* ---- the passes ---- */

/* Scores, mask, softmax and their product with the values. */
QN_NODISCARD qn_status qn_fuse_attention(qn_fuse *f);
/* Let the kernel of step i, a convolution or a product, add a value of its
 * output's shape that is there before it. Into its inputs from number 3 on. */
QN_NODISCARD qn_status qn_fuse_residual(const qn_fuse *f, uint32_t i);
/* Let the product that is step i add bias and residual itself. */
QN_NODISCARD qn_status qn_fuse_product(const qn_fuse *f, uint32_t i);
/* Elementwise steps that follow one another. */
QN_NODISCARD qn_status qn_fuse_chains(const qn_fuse *f);
/* May a chain have the step, `v` being its running value? */
bool qn_fuse_links(const qn_fuse *f, const qn_bstep *s, uint32_t v);

#endif
