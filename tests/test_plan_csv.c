/* SPDX-License-Identifier: Apache-2.0 */
/* Planning problems as CSV, there and back, and what `quern plan` prints. */
#include "runtime/plan/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void read_ok(const char *text, qn_region *region, qn_plan_csv *csv)
{
    qn_error err = { 0 };
    if (qn_plan_csv_read(text, strlen(text), region, csv, &err) != QN_OK)
        fail_msg("%s", err.text);
}

static void test_reads(void **state)
{
    (void)state;
    qn_region region = { 0 };
    qn_plan_csv csv;
    read_ok("size,id,upper, lower\r\n"
            "\r\n"
            "10,a b,4294967295,0\r\n"
            "0,\xc3\xa9,2,1", &region, &csv);
    assert_int_equal(csv.n, 2);
    assert_null(csv.offsets);
    assert_string_equal(csv.ids[0], "a b");
    assert_int_equal(csv.buffers[0].lower, 0);
    assert_int_equal(csv.buffers[0].upper, UINT32_MAX);
    assert_int_equal(csv.buffers[0].bytes, 10);
    assert_int_equal(csv.buffers[0].group, -1);
    assert_string_equal(csv.ids[1], "\xc3\xa9");
    assert_int_equal(csv.buffers[1].bytes, 0);
    read_ok("id,lower,upper,size,alignment,group,group_pos,offset\n"
            "x,0,1,18446744073709551615,64,,,128\n"
            "y,0,1,5,,3,9,0\n", &region, &csv);
    assert_true(csv.buffers[0].bytes == SIZE_MAX);
    assert_int_equal(csv.buffers[0].align, 64);
    assert_int_equal(csv.offsets[0], 128);
    assert_int_equal(csv.buffers[1].align, 0);
    assert_int_equal(csv.buffers[1].group, 3);
    assert_int_equal(csv.buffers[1].group_pos, 9);
    read_ok("id,lower,upper,size", &region, &csv);
    assert_int_equal(csv.n, 0);
    qn_region_release(&region);
}

static void test_refuses(void **state)
{
    (void)state;
#define HEAD "id,lower,upper,size\n"
    static const struct {
        const char *text;
        qn_status status;
        const char *says;
    } rows[] = {
        { "", QN_FORMAT, "line 1, column 1: no header" },
        { "\n\n", QN_FORMAT, "line 3, column 1: no header" },
        { "id,lower,upper\n", QN_FORMAT, "has no column 'size'" },
        { "id,lower,upper,size,gaps\n", QN_FORMAT,
          "line 1, column 21: unknown column 'gaps'" },
        { "id,lower,upper,size,id\n", QN_FORMAT, "column 'id' again" },
        { "id,lower,upper,size,group\n", QN_FORMAT, "come together" },
        { "id,lower,upper,size,\n", QN_FORMAT, "unknown column ''" },
        { HEAD "a,0,1\n", QN_FORMAT, "line 2, column 6: 3 cells, expected 4" },
        { HEAD "a,0,1,2,3\n", QN_FORMAT,
          "line 2, column 9: more than 4 cells" },
        { HEAD "a,0,1,2\nb,0,x,2\n", QN_FORMAT,
          "line 3, column 5: upper 'x' is not a whole number" },
        { HEAD "a,-1,1,2\n", QN_FORMAT, "column 3: lower '-1'" },
        { HEAD "a,0,1,\n", QN_FORMAT, "line 2, column 7: size is empty" },
        { HEAD "a,0,1,1e3\n", QN_FORMAT, "column 8: size '1e3'" },
        { HEAD "a,0,4294967296,2\n", QN_RANGE,
          "column 5: upper '4294967296' exceeds 4294967295" },
        { HEAD "a,0,1,18446744073709551616\n", QN_RANGE, "exceeds" },
        { HEAD "a,5,5,2\n", QN_FORMAT,
          "line 2, column 1: lower 5 is not below upper 5" },
        { HEAD "\"a\",0,1,2\n", QN_FORMAT, "line 2, column 1: a quote" },
        { "id,lower,upper,size,align\na,0,1,2,12\n", QN_FORMAT,
          "column 9: align 12 is not a power of two" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_region region = { 0 };
        qn_plan_csv csv;
        qn_error err = { 0 };
        qn_status st = qn_plan_csv_read(rows[i].text, strlen(rows[i].text),
                                        &region, &csv, &err);
        if (st != rows[i].status || !strstr(err.text, rows[i].says) ||
            csv.n != 0)
            fail_msg("row %zu: %s, \"%s\"", i, qn_status_name(st), err.text);
        qn_region_release(&region);
    }
}

/* Cut at every byte, and with every byte damaged: an answer or an error, and
 * nothing read beyond the end (the copy has no byte behind it). */
static void test_any_bytes(void **state)
{
    (void)state;
    static const char text[] = "id,lower,upper,size,align,offset\n"
                               "a,0,3,64,8,0\r\nbb,1,2,10,,64\n";
    size_t len = sizeof text - 1, good = 0;
    for (size_t cut = 0; cut <= len; cut++) {
        for (int damage = 0; damage < 256; damage += 17) {
            qn_region region = { 0 };
            qn_plan_csv csv;
            char *copy = malloc(cut ? cut : 1);
            assert_non_null(copy);
            memcpy(copy, text, cut);
            if (damage && cut)
                copy[(size_t)damage * 31 % cut] = (char)damage;
            good += qn_plan_csv_read(copy, cut, &region, &csv, NULL) == QN_OK;
            free(copy);
            qn_region_release(&region);
        }
    }
    assert_true(good > 10);
}

static void test_writes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "id,lower,upper,size\na,0,2,5\nb,1,3,0\n",
        "id,lower,upper,size,align,offset\na,0,2,5,1,64\nb,1,3,7,64,0\n",
        ("id,lower,upper,size,offset,group,group_pos\n"
         "a,0,2,5,0,,\nb,1,3,7,5,0,1\n"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        qn_region region = { 0 };
        qn_plan_csv csv;
        qn_plan_text out = { 0 };
        qn_error err = { 0 };
        read_ok(texts[i], &region, &csv);
        assert_int_equal(qn_plan_csv_write(&csv, csv.offsets, &out, &err),
                         QN_OK);
        assert_string_equal(out.data, texts[i]);
        assert_int_equal(out.len, strlen(texts[i]));
        qn_free(out.data);
        qn_region_release(&region);
    }
}

static void test_report(void **state)
{
    (void)state;
    qn_region region = { 0 };
    qn_plan_csv csv;
    qn_layout_report report;
    qn_plan_text out = { 0 };
    qn_error err = { 0 };
    size_t offsets[3];
    read_ok("id,lower,upper,size\n"
            "a,0,2,4\nb\\\x01,1,4,6\nc,3,5,5\n", &region, &csv);
    assert_int_equal(qn_layout_run(&csv, NULL, offsets, &report, &err), QN_OK);
    assert_int_equal(report.stats.lower_bound, 11);
    assert_int_equal(report.stats.peak, 11);
    assert_int_equal(report.peak_time, 3);
    assert_int_equal(report.n_top, 2);
    assert_int_equal(report.top[0], 1);
    assert_int_equal(report.top[1], 2);
    assert_int_equal(qn_layout_print(&csv, &report, 10, true, &out, &err),
                     QN_OK);
    static const char *const json[] = {
        "{\"buffers\": 3, \"lower_bound\": 11, \"peak\": 11, "
        "\"ratio\": 1.000000, \"total\": 15",
        "\"capacity\": 10, \"fits\": false",
        "\"top\": [{\"id\": \"b\\u005c\\u0001\", \"size\": 6}, "
        "{\"id\": \"c\", \"size\": 5}]}\n",
    };
    for (size_t i = 0; i < sizeof json / sizeof json[0]; i++)
        if (!strstr(out.data, json[i]))
            fail_msg("no %s in %s", json[i], out.data);
    out.len = 0;
    assert_int_equal(qn_layout_print(&csv, &report, 11, false, &out, &err),
                     QN_OK);
    assert_non_null(strstr(out.data, "11 bytes: fits\n"));
    assert_non_null(strstr(out.data, "           6  b\\?\n"));
    qn_free(out.data);
    qn_region_release(&region);
}

/* The ten largest of many, in order. */
static void test_top(void **state)
{
    (void)state;
    qn_region region = { 0 };
    qn_plan_csv csv;
    qn_layout_report report;
    qn_plan_text text = { 0 };
    qn_error err = { 0 };
    size_t offsets[50];
    assert_int_equal(qn_plan_text_add(&text, &err, HEAD), QN_OK);
    for (unsigned i = 0; i < 50; i++) /* all different, in no order */
        assert_int_equal(qn_plan_text_add(&text, &err, "b%u,0,1,%u\n", i,
                                          1 + i * 37 % 101), QN_OK);
    read_ok(text.data, &region, &csv);
    assert_int_equal(qn_layout_run(&csv, NULL, offsets, &report, &err), QN_OK);
    assert_int_equal(report.n_top, QN_PLAN_TOP);
    for (size_t i = 0; i < QN_PLAN_TOP; i++) {
        size_t larger = 0;
        for (size_t k = 0; k < csv.n; k++)
            larger += csv.buffers[k].bytes > csv.buffers[report.top[i]].bytes;
        assert_int_equal(larger, i);
    }
    qn_free(text.data);
    qn_region_release(&region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),    cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_any_bytes), cmocka_unit_test(test_writes),
        cmocka_unit_test(test_report),   cmocka_unit_test(test_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
