/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/inspect_devices.h"

#include "server/cli/text.h"

#include <stdio.h>

enum { MAX_OPERATORS = 64 };

static const char *label(const qn_loaded *l, uint32_t space)
{
    const qn_accel *a =
        space ? qn_runtime_accel(l->runtime, space - 1) : NULL;
    return a ? a->label : "cpu";
}

static void print_on_cpu(const qn_loaded *l)
{
    qn_cpu_operator rows[MAX_OPERATORS];
    uint32_t n = qn_session_on_cpu(l->session, rows, MAX_OPERATORS);
    for (uint32_t i = 0; i < n && i < MAX_OPERATORS; i++)
        printf("%s %s %u", i ? "," : "; on the cpu:", rows[i].op, rows[i].count);
    printf("\n");
}

void qn_inspect_devices_print(const qn_loaded *l, const qn_plan_report *r)
{
    char a[QN_BYTES_TEXT], b[QN_BYTES_TEXT];
    qn_static_report s;
    if (r->n_spaces < 2)
        return;
    qn_session_static(l->session, &s);
    for (uint32_t n = 1; n < r->n_spaces; n++)
        printf("%-8s arena %s, lower bound %s\n", label(l, n),
               qn_bytes_text(r->spaces[n].arena_bytes, a),
               qn_bytes_text(r->spaces[n].lower_bound, b));
    printf("         static %s, leased for a request %s\n",
           qn_bytes_text(s.accel_bytes, a), qn_bytes_text(r->device_bytes, b));
    printf("kernels  %u there", s.accel_kernels);
    print_on_cpu(l);
    printf("launches %u of %u there, %u copies (%s); %u queues, %u waits of "
           "%u; %s\n",
           r->accel_launches, r->launches - r->copies, r->copies,
           qn_bytes_text(r->copy_bytes, a), r->queues, r->waits, r->waits_naive,
           r->capturable ? "can be one graph" : "cannot be one graph");
}

void qn_inspect_devices_json(const qn_loaded *l, const qn_plan_report *r,
                             json_t *root)
{
    qn_cpu_operator rows[MAX_OPERATORS];
    json_t *devices = json_array(), *on_cpu = json_array();
    uint32_t n = qn_session_on_cpu(l->session, rows, MAX_OPERATORS);
    for (uint32_t i = 0; i < r->n_spaces; i++)
        json_array_append_new(
            devices, json_pack("{s:s, s:I, s:I}", "device", label(l, i),
                               "arena_bytes",
                               (json_int_t)r->spaces[i].arena_bytes,
                               "lower_bound",
                               (json_int_t)r->spaces[i].lower_bound));
    for (uint32_t i = 0; r->n_spaces > 1 && i < n && i < MAX_OPERATORS; i++)
        json_array_append_new(on_cpu,
                              json_pack("{s:s, s:i}", "name", rows[i].op,
                                        "nodes", (int)rows[i].count));
    json_object_update_new(
        root, json_pack("{s:o, s:o, s:i, s:i, s:i, s:I, s:i, s:i, s:i, s:b}",
                        "devices", devices, "on_cpu", on_cpu, "accel_launches",
                        (int)r->accel_launches, "cpu_float_launches",
                        (int)r->cpu_float_launches, "copies", (int)r->copies,
                        "copy_bytes", (json_int_t)r->copy_bytes, "queues",
                        (int)r->queues, "waits", (int)r->waits, "waits_naive",
                        (int)r->waits_naive, "capturable", r->capturable));
}
