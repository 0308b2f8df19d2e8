/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of planning problems, and the planner on what it accepts: every
 * layout passes the verifier, and what is written reads back the same. */
#include "runtime/plan/report.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

unsigned long fuzz_accepted;

enum { MOST_BUFFERS = 200 };

static void read_back(const qn_plan_csv *csv, const size_t *offsets)
{
    qn_region region = { 0 };
    qn_plan_csv again;
    qn_plan_text text = { 0 };
    qn_error err = { 0 };
    if (qn_plan_csv_write(csv, offsets, &text, &err) != QN_OK ||
        qn_plan_csv_read(text.data, text.len, &region, &again, &err) != QN_OK ||
        again.n != csv->n)
        abort();
    for (size_t i = 0; i < csv->n; i++)
        if (again.offsets[i] != offsets[i] ||
            again.buffers[i].bytes != csv->buffers[i].bytes ||
            again.buffers[i].group != csv->buffers[i].group ||
            strcmp(again.ids[i], csv->ids[i]) != 0)
            abort();
    qn_free(text.data);
    qn_region_release(&region);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static size_t offsets[MOST_BUFFERS];
    qn_region region = { 0 };
    qn_plan_csv csv;
    qn_layout_report report;
    qn_layout_options options = { .search_steps = 2000 };
    qn_error err = { 0 };
    qn_status st = qn_plan_csv_read((const char *)data, size, &region, &csv,
                                    &err);
    if (st != QN_OK && (!err.text[0] || csv.n))
        abort();
    if (st == QN_OK && csv.n <= MOST_BUFFERS) {
        st = qn_layout_run(&csv, &options, offsets, &report, &err);
        if (st == QN_INTERNAL)
            abort(); /* the verifier found a fault */
        if (st == QN_OK) {
            read_back(&csv, offsets);
            fuzz_accepted++;
        }
    }
    qn_region_release(&region);
    return 0;
}
