/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/param.h"

#include <string.h>

const qn_param *qn_params_find(const qn_params *params, const char *key)
{
    for (uint32_t i = 0; params && i < params->n; i++)
        if (params->items[i].key && !strcmp(params->items[i].key, key))
            return &params->items[i];
    return NULL;
}

bool qn_params_bool(const qn_params *params, const char *key, bool missing)
{
    const qn_param *p = qn_params_find(params, key);

    return p && p->kind == QN_PARAM_BOOL ? p->boolean : missing;
}

int64_t qn_params_int(const qn_params *params, const char *key,
                      int64_t missing)
{
    const qn_param *p = qn_params_find(params, key);

    return p && p->kind == QN_PARAM_INT ? p->integer : missing;
}

const char *qn_params_string(const qn_params *params, const char *key,
                             const char *missing)
{
    const qn_param *p = qn_params_find(params, key);

    return p && p->kind == QN_PARAM_STRING ? p->string : missing;
}
