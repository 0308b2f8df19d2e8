/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/pb.h"

#include <stdlib.h>
#include <string.h>

void pb_free(pb *m)
{
    free(m->data);
    memset(m, 0, sizeof *m);
}

void pb_raw(pb *m, const void *bytes, size_t n)
{
    if (m->cap - m->n < n) {
        /* malloc, so that tests which fail the library's calls spare it */
        size_t cap = 2 * (m->n + n) + 64;
        uint8_t *data = malloc(cap);
        if (!data)
            abort();
        if (m->n)
            memcpy(data, m->data, m->n);
        free(m->data);
        m->data = data;
        m->cap = cap;
    }
    if (n)
        memcpy(m->data + m->n, bytes, n);
    m->n += n;
}

void pb_varint(pb *m, uint64_t v)
{
    do {
        uint8_t byte = (uint8_t)((v & 127u) | (v > 127 ? 128u : 0u));
        pb_raw(m, &byte, 1);
        v >>= 7;
    } while (v);
}

static void tag(pb *m, uint32_t field, unsigned type)
{
    pb_varint(m, (uint64_t)field << 3 | type);
}

void pb_int(pb *m, uint32_t field, int64_t v)
{
    tag(m, field, 0);
    pb_varint(m, (uint64_t)v);
}

void pb_float(pb *m, uint32_t field, float v)
{
    tag(m, field, 5);
    pb_raw(m, &v, sizeof v);
}

void pb_bytes(pb *m, uint32_t field, const void *bytes, size_t n)
{
    tag(m, field, 2);
    pb_varint(m, n);
    pb_raw(m, bytes, n);
}

void pb_text(pb *m, uint32_t field, const char *text)
{
    pb_bytes(m, field, text, strlen(text));
}

void pb_put(pb *m, uint32_t field, pb *child)
{
    pb_bytes(m, field, child->data, child->n);
    pb_free(child);
}

/* ---- ONNX ---- */

static void put_list(pb *m, uint32_t field, const char *names)
{
    while (*names) {
        size_t n = strcspn(names, ",");
        pb_bytes(m, field, names, n);
        names += n;
        if (*names == ',') {
            names++;
            if (!*names)
                pb_bytes(m, field, "", 0);
        }
    }
}

pb pb_node(const char *op, const char *name, const char *in, const char *out)
{
    pb node = { 0 };

    put_list(&node, 1, in);
    put_list(&node, 2, out);
    pb_text(&node, 3, name);
    pb_text(&node, 4, op);
    return node;
}

void pb_add_node(pb *graph, const char *op, const char *name, const char *in,
                 const char *out)
{
    pb node = pb_node(op, name, in, out);
    pb_put(graph, PB_GRAPH_NODE, &node);
}

static pb shape_of(const char *text)
{
    pb shape = { 0 };

    while (*text) {
        size_t n = strcspn(text, ",");
        pb dim = { 0 };
        if (*text == '-' || (*text >= '0' && *text <= '9'))
            pb_int(&dim, 1, strtoll(text, NULL, 10));
        else if (*text != '?')
            pb_bytes(&dim, 2, text, n);
        pb_put(&shape, 1, &dim);
        text += n + (text[n] == ',');
    }
    return shape;
}

pb pb_value(const char *name, int dtype, const char *shape)
{
    pb info = { 0 }, type = { 0 }, tensor = { 0 };

    pb_int(&tensor, 1, dtype);
    if (shape) {
        pb s = shape_of(shape);
        pb_put(&tensor, 2, &s);
    }
    pb_put(&type, 1, &tensor);
    pb_text(&info, 1, name);
    pb_put(&info, 2, &type);
    return info;
}

void pb_add_input(pb *graph, const char *name, int dtype, const char *shape)
{
    pb value = pb_value(name, dtype, shape);
    pb_put(graph, PB_GRAPH_INPUT, &value);
}

void pb_add_output(pb *graph, const char *name, int dtype, const char *shape)
{
    pb value = pb_value(name, dtype, shape);
    pb_put(graph, PB_GRAPH_OUTPUT, &value);
}

pb pb_tensor(const char *name, int dtype, int rank, const int64_t *dims)
{
    pb t = { 0 };

    for (int i = 0; i < rank; i++)
        pb_int(&t, 1, dims[i]);
    pb_int(&t, 2, dtype);
    pb_text(&t, 8, name);
    return t;
}

void pb_add_floats(pb *graph, const char *name, int n, const float *values)
{
    int64_t dim = n;
    pb t = pb_tensor(name, 1, 1, &dim);

    pb_bytes(&t, PB_TENSOR_RAW, values, (size_t)n * sizeof *values);
    pb_put(graph, PB_GRAPH_INITIALIZER, &t);
}

void pb_add_graph_attr(pb *node, const char *name, pb *graph)
{
    pb attr = { 0 };

    pb_text(&attr, 1, name);
    pb_int(&attr, PB_ATTR_TYPE, 5);
    pb_put(&attr, PB_ATTR_G, graph);
    pb_put(node, PB_NODE_ATTRIBUTE, &attr);
}

void pb_add_int_attr(pb *node, const char *name, int64_t value)
{
    pb attr = { 0 };

    pb_text(&attr, 1, name);
    pb_int(&attr, PB_ATTR_TYPE, 2);
    pb_int(&attr, 3, value);
    pb_put(node, PB_NODE_ATTRIBUTE, &attr);
}

void pb_add_import(pb *model, const char *domain, int64_t version)
{
    pb import = { 0 };

    pb_text(&import, 1, domain);
    pb_int(&import, 2, version);
    pb_put(model, PB_MODEL_IMPORT, &import);
}

pb pb_model(int64_t ir, int64_t opset, pb *graph)
{
    pb model = { 0 };

    pb_int(&model, 1, ir);
    pb_text(&model, 2, "test");
    if (opset)
        pb_add_import(&model, "", opset);
    pb_put(&model, PB_MODEL_GRAPH, graph);
    return model;
}
