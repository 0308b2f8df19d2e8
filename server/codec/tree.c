/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/tree.h"

#include <jansson.h>
#include <string.h>

static bool copy_value(json_t *from, qn_region *region, qn_param *to);

static bool copy_string(const char *text, size_t len, qn_region *region,
                        const char **out)
{
    *out = qn_region_strndup(region, text, len);
    return *out != NULL;
}

static bool copy_object(json_t *from, qn_region *region, qn_params *to)
{
    const char *key;
    json_t *value;
    size_t n = json_object_size(from);
    qn_param *items = NULL;

    if (n) {
        items = qn_region_alloc(region, n, sizeof *items);
        if (!items)
            return false;
    }
    to->items = items;
    json_object_foreach(from, key, value) {
        qn_param *item = &items[to->n++];

        if (!copy_string(key, strlen(key), region, &item->key) ||
            !copy_value(value, region, item))
            return false;
    }
    return true;
}

static bool copy_list(json_t *from, qn_region *region, qn_params *to)
{
    size_t n = json_array_size(from);
    qn_param *items = NULL;

    if (n) {
        items = qn_region_alloc(region, n, sizeof *items);
        if (!items)
            return false;
    }
    to->items = items;
    to->n = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if (!copy_value(json_array_get(from, i), region, &items[i]))
            return false;
    return true;
}

/* Recursion is as deep as the text, which the scan has bounded. */
static bool copy_value(json_t *from, qn_region *region, qn_param *to)
{
    switch (json_typeof(from)) {
    case JSON_NULL:
        to->kind = QN_PARAM_NULL;
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        to->kind = QN_PARAM_BOOL;
        to->boolean = json_is_true(from);
        break;
    case JSON_INTEGER:
        to->kind = QN_PARAM_INT;
        to->integer = json_integer_value(from);
        to->real = (double)to->integer;
        break;
    case JSON_REAL:
        to->kind = QN_PARAM_REAL;
        to->real = json_real_value(from);
        break;
    case JSON_STRING:
        to->kind = QN_PARAM_STRING;
        to->len = json_string_length(from);
        return copy_string(json_string_value(from), to->len, region,
                           &to->string);
    case JSON_ARRAY:
        to->kind = QN_PARAM_LIST;
        return copy_list(from, region, &to->items);
    case JSON_OBJECT:
        to->kind = QN_PARAM_OBJECT;
        return copy_object(from, region, &to->items);
    }
    return true;
}

qn_status qn_tree_parse(const char *text, size_t len, qn_region *region,
                        qn_params *out, size_t *at, qn_error *err)
{
    json_error_t why;
    json_t *root;
    bool ok;

    *out = (qn_params){ 0 };
    *at = 0;
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root) {
        /* a failed allocation leaves no reason, or this one */
        if (!why.text[0] || json_error_code(&why) == json_error_out_of_memory)
            return qn_fail(err, QN_NO_MEMORY, "no memory for the request");
        *at = why.position > 0 ? (size_t)why.position : 0;
        if (json_error_code(&why) == json_error_null_character)
            return qn_fail(err, QN_FORMAT,
                           "\\u0000 is only allowed in a tensor's data");
        return qn_fail(err, QN_FORMAT, "%s", why.text);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return qn_fail(err, QN_FORMAT, "the body is not a JSON object");
    }
    ok = copy_object(root, region, out);
    json_decref(root);
    if (!ok)
        return qn_fail(err, QN_NO_MEMORY, "no memory for the request");
    return QN_OK;
}
