/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel graph: a model as the runtime sees it.
 *
 *   graph ── values   what flows: inputs, constants, intermediates, captures
 *        ├── nodes    operations, in execution order after qn_graph_finish()
 *        ├── inputs / outputs   value numbers, in the model's order
 *        └── region   owns every name, array and attribute
 *
 * A body of If, Loop or Scan is a child graph, held by the node's attribute.
 * What a child uses from outside is a capture: one value in the child that
 * stands for one value of its parent (a grandparent's value is captured by
 * each level in turn). A graph holds no pointer to data that a request owns;
 * constants point into the model file's mapping or into the region.
 *
 * Build: qn_graph_new, add values and nodes in any order, qn_graph_finish.
 * Immutable afterwards, but for the passes of runtime/passes/passes.h, which run
 * before the graph is shared. One thread while building, any number after.
 */
#ifndef QN_GRAPH_GRAPH_H
#define QN_GRAPH_GRAPH_H

#include "runtime/base/alloc.h"
#include "runtime/base/shape.h"
#include "runtime/base/string.h"

typedef struct qn_graph qn_graph;
typedef struct qn_node qn_node;
struct qn_op;
struct qn_kernel;

typedef uint32_t qn_value_id;
#define QN_NO_VALUE UINT32_MAX

/* Parts that a model can be split into. */
enum { QN_GRAPH_RANKS = 8 };

/* ---- types ---- */

typedef enum qn_type_kind {
    QN_TYPE_NONE,
    QN_TYPE_TENSOR, /* strings too: dtype says so */
    QN_TYPE_SEQUENCE,
    QN_TYPE_OPTIONAL,
    QN_TYPE_MAP
} qn_type_kind;

typedef struct qn_type {
    qn_type_kind kind;
    qn_dtype dtype;             /* tensor: element; map: key */
    const struct qn_type *elem; /* sequence, optional, map: what is inside */
} qn_type;

/* A declared dimension: value >= 0, or -1 with a symbol, or -1 and NULL. */
typedef struct qn_dim {
    int64_t value;
    const char *symbol;
} qn_dim;

/* ---- constants ---- */

/*
 * Bytes of a constant. `data` points at them in memory order where they can be
 * used as they lie (aligned or not: read with memcpy); otherwise `fill` writes
 * them, so that a weight is decoded once, straight into its final place.
 */
typedef struct qn_const {
    qn_dtype dtype;
    qn_shape shape;
    size_t bytes;         /* in memory */
    const void *data;     /* NULL: call fill */
    qn_status (*fill)(const struct qn_const *c, void *dst, qn_error *err);
    const void *fill_arg; /* owned by the region */
    const char *strings;  /* heap of a string constant: elements say
                             QN_STRINGS_STATIC, offsets count from here */
    size_t string_bytes;
} qn_const;

/* Copy or fill into dst[c->bytes]. */
QN_NODISCARD qn_status qn_const_read(const qn_const *c, void *dst,
                                     qn_error *err);

/* ---- values ---- */

typedef enum qn_value_kind {
    QN_VALUE_INPUT,
    QN_VALUE_CONST,
    QN_VALUE_NODE,    /* produced by a node */
    QN_VALUE_CAPTURE, /* stands for `outer` of the parent graph */
} qn_value_kind;

/* How a rank-4 tensor lies in memory. Shapes are always logical, N C H W. */
typedef enum qn_memory_order {
    QN_ORDER_PLAIN, /* row-major in the logical order */
    QN_ORDER_NHWC   /* channels last: N H W C */
} qn_memory_order;

typedef struct qn_value {
    const char *name; /* "" if the model gave none */
    qn_value_kind kind;
    qn_type type;      /* set by qn_graph_finish for node outputs */
    int32_t rank;      /* declared; -1 unknown */
    const qn_dim *dims; /* [rank], NULL if rank < 0 */
    const qn_const *data; /* constants; also an input's default (IR < 4 or
                             overridable initializers) */
    qn_value_id outer; /* captures */
    uint32_t node;     /* producer's index, UINT32_MAX if none */
    qn_memory_order order; /* set by the layout pass */
    uint32_t slot; /* constants: row in the session's static memory */
} qn_value;

/* ---- nodes ---- */

typedef struct qn_text {
    const char *s; /* NUL-terminated too */
    size_t len;
} qn_text;

typedef enum qn_attr_kind {
    QN_ATTR_FLOAT,
    QN_ATTR_INT,
    QN_ATTR_STRING,
    QN_ATTR_TENSOR,
    QN_ATTR_GRAPH,
    QN_ATTR_FLOATS,
    QN_ATTR_INTS,
    QN_ATTR_STRINGS
} qn_attr_kind;

typedef struct qn_attr {
    const char *name;
    qn_attr_kind kind;
    int64_t i;
    float f;
    qn_text s;
    size_t n; /* length of the arrays below */
    const int64_t *ints;
    const float *floats;
    const qn_text *strings;
    const qn_const *tensor;
    qn_graph *graph;
} qn_attr;

/* What a fused activation does to each element of output 0, after everything
 * else. Set by the fusion pass; kernels with QN_KERNEL_FUSES apply it. */
typedef enum qn_act {
    QN_ACT_NONE,
    QN_ACT_RELU,
    QN_ACT_CLIP,        /* a = low, b = high */
    QN_ACT_LEAKY,       /* a = alpha */
    QN_ACT_SIGMOID,
    QN_ACT_TANH,
    QN_ACT_HARD_SIGMOID, /* a = alpha, b = beta */
    QN_ACT_HARD_SWISH
} qn_act;

struct qn_node {
    const char *name; /* may be "" and need not be unique */
    const char *domain, *op_name; /* "" is the ONNX domain */
    int opset;
    uint32_t index;          /* position in execution order */
    const struct qn_op *op;  /* set by qn_graph_finish */
    const struct qn_kernel *kernel; /* chosen for the device at load */
    uint32_t n_in, n_out;
    qn_value_id *in, *out; /* QN_NO_VALUE: an omitted optional one */
    uint32_t n_attrs;
    const qn_attr *attrs;
    /* set by passes */
    qn_act act;
    float act_a, act_b;
    bool residual; /* the last input is added to output 0 before `act` */
    bool bias; /* MatMul: input 2, as long as the output's last axis, is added
                  to each row of output 0, before the residual */
    qn_memory_order order; /* order of rank-4 inputs and outputs */
    uint8_t place; /* space it runs in: 0 the cpu, n the session's device n-1 */
    uint8_t rank;  /* of a model that is split: which part it belongs to */
};

struct qn_graph {
    const char *name;
    qn_graph *parent; /* NULL for the model's main graph */
    qn_region *region; /* shared by a model's whole tree of graphs */
    qn_region own_region; /* the main graph's */
    uint32_t n_values, cap_values;
    qn_value *values;
    uint32_t n_nodes, cap_nodes;
    qn_node **nodes;
    uint32_t n_inputs, cap_inputs;
    qn_value_id *inputs;
    uint32_t n_outputs, cap_outputs;
    qn_value_id *outputs;
    const char **output_names; /* [n_outputs], as the model calls them */
    qn_type *output_types; /* declared; kind NONE where undeclared */
    qn_value *output_decls; /* [n_outputs] declared rank and dims */
    /* what qn_graph_finish() found no use for, this graph only */
    uint32_t n_dropped_nodes, n_dropped_constants;
    uint32_t n_ranks; /* parts that were merged into it (ranks.h); 0: never */
};

/* ---- building (models/onnx/ is the user) ---- */

/* `parent` NULL: a main graph with a region of its own. QN_NO_MEMORY. */
QN_NODISCARD qn_status qn_graph_new(qn_graph *parent, const char *name,
                                    qn_graph **out, qn_error *err);
/* Frees the tree below a main graph; children go with it. NULL is fine. */
void qn_graph_free(qn_graph *graph);

/* Add a value; fields as in qn_value, arrays must live in graph->region. */
QN_NODISCARD qn_status qn_graph_add_value(qn_graph *graph, const qn_value *value,
                                          qn_value_id *out, qn_error *err);
QN_NODISCARD qn_status qn_graph_add_input(qn_graph *graph, qn_value_id value,
                                          qn_error *err);
/* `decl` gives name, type, rank and dims as declared. The same value may be
 * several outputs. */
QN_NODISCARD qn_status qn_graph_add_output(qn_graph *graph, qn_value_id value,
                                           const qn_value *decl, qn_error *err);
/* The capture in `graph` of value `outer` of its parent, made on first use. */
QN_NODISCARD qn_status qn_graph_capture(qn_graph *graph, qn_value_id outer,
                                        qn_value_id *out, qn_error *err);
/* A node with its arrays zeroed, in graph->region; the caller fills in names,
 * value numbers, attributes. Values it produces get kind NODE. */
QN_NODISCARD qn_status qn_graph_add_node(qn_graph *graph, uint32_t n_in,
                                         uint32_t n_out, uint32_t n_attrs,
                                         qn_node **out, qn_error *err);

/*
 * Check and complete the tree: each value has one producer; nodes are sorted
 * (stable: among ready nodes the model's order decides; a cycle is QN_FORMAT
 * with a node on it); operators are looked up by domain, name and opset;
 * input and output counts and element types are checked; element types of
 * all values are derived. Constants and nodes that no output needs are dropped
 * before they are looked at, and counted (n_dropped_*); values are renumbered.
 * Captures and outputs of control flow get the type, captures also the declared
 * dimensions, of what they stand for.
 *
 * An omitted input among the first op->min_in is an error; an omitted output
 * among the first op->min_out gets a value without a name, so that kernels find
 * both present. Omitted inputs and outputs at the end are cut off.
 *
 * Errors: QN_UNSUPPORTED names operator, opset and node; QN_FORMAT, QN_TYPE.
 * The graph can only be freed after an error.
 */
QN_NODISCARD qn_status qn_graph_finish(qn_graph *graph, qn_error *err);

/* ---- reading attributes (kernels) ---- */

const qn_attr *qn_node_attr(const qn_node *node, const char *name);
int64_t qn_node_int(const qn_node *node, const char *name, int64_t otherwise);
float qn_node_float(const qn_node *node, const char *name, float otherwise);
/* Sets *n and returns the array; NULL and 0 if absent. */
const int64_t *qn_node_ints(const qn_node *node, const char *name, size_t *n);
const float *qn_node_floats(const qn_node *node, const char *name, size_t *n);
/* NUL-terminated; `otherwise` if absent. */
const char *qn_node_string(const qn_node *node, const char *name,
                           const char *otherwise);
/* "Conv (opset 13) node 'conv1'": for messages; returns buf. */
enum { QN_NODE_TEXT = 256 };
const char *qn_node_text(const qn_node *node, char buf[QN_NODE_TEXT]);

#endif
