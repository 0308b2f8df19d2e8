/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of plan building: emit.c, fuse.c, place.c, finish.c. */
#ifndef QN_PLAN_BUILD_H
#define QN_PLAN_BUILD_H

#include "runtime/exec/session_impl.h"
#include "runtime/plan/plan.h"

/* Devices want whole values so; the host, QN_ARENA_ALIGN. */
enum { QN_DEVICE_ALIGN = 256 };

/* Free bytes before and behind a block of a collective; a multiple of both. */
enum { QN_BLOCK_GUARD = 512 };

typedef enum qn_bkind {
    QN_BV_INPUT,
    QN_BV_CONST, /* in static memory */
    QN_BV_KNOWN, /* computed while planning, in the plan's region */
    QN_BV_STEP   /* written by steps */
} qn_bkind;

/* A value while the plan is being built. Shapes are logical. */
typedef struct qn_bvalue {
    qn_bkind kind;
    const char *name;
    qn_dtype dtype;
    qn_shape shape;
    qn_memory_order order;
    const void *data; /* CONST that is kept plain, KNOWN; else NULL */
    uint32_t slot;    /* CONST; INPUT: its number */
    bool dynamic;     /* shape is found when the request runs */
    bool bounded;     /* dynamic, and `shape` is an upper bound */
    uint32_t root;    /* value whose memory this one has */
    uint32_t first, last; /* steps; of the root: of all that share it */
    bool used;
    int32_t output;   /* root: lies in this output's buffer; -1 */
    size_t bytes;     /* at the shape or bound; 0 if unbounded */
    uint32_t row;     /* number in the finished plan */
    uint8_t space;    /* 0: the host's memory; n: the session's device n-1 */
    uint32_t twin;    /* the same value in another space, a list; NO_VALUE */
    int32_t group;    /* root: block that it lies in, see blocks.c; -1 */
    uint32_t group_pos;
} qn_bvalue;

typedef struct qn_bstep {
    qn_step_kind kind;
    const qn_node *node;
    const qn_node *owner; /* the graph's node: packed weights go by it */
    uint32_t *in, *out;
    uint32_t n_in, n_out;
    uint32_t target;
    bool dynamic, live, gone; /* gone: needs no step of its own */
    bool absorbed;            /* part of an earlier launch */
    bool stage;               /* copies into a block; goes if it can */
    int32_t groups; /* of a collective: its first block; -1 if it has none */
    const void *state;
    size_t workspace;
    uint32_t clear; /* see qn_prepare */
    uint8_t space;  /* where it runs; copies: the device that moves the bytes */
} qn_bstep;

typedef struct qn_streams qn_streams; /* streams.h */

typedef struct qn_builder {
    qn_session *session;
    qn_plan *plan;
    qn_region scratch; /* goes when the plan is built */
    qn_bvalue *values;
    uint32_t n_values, cap_values;
    qn_bstep *steps;
    uint32_t n_steps, cap_steps;
    uint32_t *inputs, *outputs; /* values of the main graph's ends */
    qn_strings strings; /* static heap only */
    int32_t n_groups;
    int maybe; /* branches around whose condition is not known */
    qn_streams *streams; /* NULL: everything on the host's one queue */
    qn_plan_fused fused;
    qn_error *err;
} qn_builder;

static inline qn_status qn_build_no_memory(qn_builder *b)
{
    return qn_fail(b->err, QN_NO_MEMORY, "no memory to build a plan");
}

/* ---- emit.c, control.c, spaces.c: to each other ---- */

/* `v` copied; its root is itself, and it has no twin. */
QN_NODISCARD qn_status qn_build_add_value(qn_builder *b, const qn_bvalue *v,
                                          uint32_t *out);
QN_NODISCARD qn_status qn_build_add_step(qn_builder *b, qn_step_kind kind,
                                         const qn_node *node, uint32_t n_in,
                                         uint32_t n_out, uint32_t *out);
/* Type, logical shape and, where known, data. */
qn_tensor qn_build_tensor(const qn_builder *b, uint32_t id);
/* A step that copies `from` to `to`, from space to space if they differ. */
QN_NODISCARD qn_status qn_build_copy(qn_builder *b, uint32_t from, uint32_t to);
/* Let a copy write another value. */
void qn_build_retarget(qn_builder *b, uint32_t step, uint32_t to);
/* The value in that space: itself, or its twin there, which is copied here if
 * it is new. */
QN_NODISCARD qn_status qn_build_in_space(qn_builder *b, uint32_t id,
                                         uint8_t space, uint32_t *out);
/* Twins made since there were n_values stay behind in a branch: forget them. */
void qn_build_forget_twins(qn_builder *b, uint32_t n_values);
QN_NODISCARD qn_status qn_build_graph(qn_builder *b, const qn_graph *graph,
                                      uint32_t *map, int depth);
QN_NODISCARD qn_status qn_build_if(qn_builder *b, const qn_graph *graph,
                                   const qn_node *node, uint32_t *map,
                                   int depth);

/* ---- blocks.c ---- */

/* Brings the inputs of a collective to where their ranks are, and into blocks:
 * ids[] become those. *groups: for the step, -1 where shapes are not known. */
QN_NODISCARD qn_status qn_build_collective_in(qn_builder *b,
                                              const qn_node *node, bool dynamic,
                                              uint32_t *ids, int32_t *groups);
/* Spaces and blocks of what the step, just added, writes. */
void qn_build_collective_out(qn_builder *b, uint32_t step);
/* Is it a root that has bytes in a block? */
bool qn_build_in_block(const qn_builder *b, uint32_t v);
/* [n_groups] values that have the guard before, and behind them. */
typedef struct qn_block_ends {
    uint32_t *first, *last;
} qn_block_ends;
QN_NODISCARD qn_status qn_build_find_guards(qn_builder *b, qn_block_ends *out);

/* ---- the parts, in order ---- */

/* Walk the graph: shapes, known values, steps. */
QN_NODISCARD qn_status qn_build_emit(qn_builder *b, const qn_tensor *inputs);
/* Let kernels absorb the activation or addition behind them. */
QN_NODISCARD qn_status qn_build_fuse(qn_builder *b);
/* Drop dead steps, share and lay out memory, then qn_build_finish(). */
QN_NODISCARD qn_status qn_build_place(qn_builder *b);

enum { QN_ARENA_ALIGN = 64 };

/* The arenas' buffers and where they lie, space by space. */
typedef struct qn_places {
    qn_buffer *buffers;
    uint32_t *owners; /* value, or n_values + step for a workspace */
    size_t *offsets;
    size_t *before, *behind; /* of `bytes`, guards; 0 once they are cut off */
    size_t n;
    size_t start[QN_SESSION_ACCELS + 2]; /* of each space in these arrays */
    qn_layout_stats stats[QN_SESSION_ACCELS + 1];
} qn_places;

/* Write the plan's tables. */
QN_NODISCARD qn_status qn_build_finish(qn_builder *b, const qn_places *places);
/* What qn_plan_read() gives; renumber[step] is a step's number in the plan. */
QN_NODISCARD qn_status qn_build_report(qn_builder *b, const qn_places *places,
                                       const uint32_t *renumber);
/* The collectives in it; after qn_build_report(). */
QN_NODISCARD qn_status qn_build_report_blocks(qn_builder *b,
                                              const qn_places *places,
                                              const uint32_t *renumber);
/* Copy the plan's constants to the session's devices, and charge them. */
QN_NODISCARD qn_status qn_plan_upload(qn_plan *plan, char *const *consts,
                                      qn_error *err);
void qn_plan_drop_uploads(qn_plan *plan);

/* The value whose memory `v` has. */
uint32_t qn_build_root(const qn_builder *b, uint32_t v);
/* Type, physical shape and, where known, data; dtype NONE for QN_NO_VALUE. */
qn_tensor qn_build_physical(const qn_builder *b, uint32_t v);

#endif
