/* SPDX-License-Identifier: Apache-2.0 */
/* Repository scans and config.json. */
#include "models/repository.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/quern-repo-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A file with its folders; text NULL makes a folder. */
static void put(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    if (!text) {
        assert_int_equal(mkdir(path, 0700), 0);
        return;
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* "id:version state reason" of every entry, a line each. */
static void describe(const qn_repository *r, char *out, size_t size)
{
    size_t at = 0;

    out[0] = 0;
    for (size_t i = 0; i < r->n && at < size; i++) {
        const qn_repository_entry *e = &r->entries[i];
        int n = snprintf(out + at, size - at, "%s:%llu%s %s\n", e->id,
                         (unsigned long long)e->version, e->latest ? "*" : "",
                         e->state == QN_ENTRY_FOUND ? "found" : e->error.text);
        at += n > 0 ? (size_t)n : 0;
    }
}

static void test_scan(void **state)
{
    static const char want[] =
        "bad id:0 the folder's name is no model id: 1 to 128 of A-Z a-z 0-9 . "
        "_ - expected\n"
        "badconfig:0 config.json: unknown key \"requird\"; did you mean "
        "\"required\"?\n"
        "badjson:0 config.json: the file holds a list, an object expected\n"
        "both:1* version 1 is there twice: model.onnx and 1/model.onnx\n"
        "empty:0 no version: empty/1/model.onnx expected\n"
        "every:1 found\nevery:2 found\nevery:10* found\n"
        "hole:3* 3/model.onnx is not there\n"
        "latest:10* found\n"
        "listed:2 found\n"
        "listed:7 config.json asks for version 7, which is not there\n"
        "short:1* found\n"
        "split:2* found\n"
        "splitgap:1* 1/b.onnx is not there\n"
        "splitnone:0 no version: splitnone/1/a.onnx expected\n"
        "splitshort:1* found\n";
    char got[2048];
    qn_repository r;
    qn_error err = { 0 };

    (void)state;
    put("README.md", "files are passed over");
    put(".hidden/1/model.onnx", "x");
    put("bad id/1/model.onnx", "x");
    put("badconfig/1/model.onnx", "x");
    put("badconfig/config.json", "{\"requird\": true}");
    put("badjson/1/model.onnx", "x");
    put("badjson/config.json", "[]");
    put("both/1/model.onnx", "x");
    put("both/model.onnx", "x");
    put("empty", NULL);
    put("every/1/model.onnx", "x");
    put("every/2/model.onnx", "x");
    put("every/10/model.onnx", "x");
    put("every/notes/model.onnx", "x");
    put("every/config.json", "{\"versions\": \"all\"}");
    put("hole/1/model.onnx", "x");
    put("hole/3", NULL);
    put("latest/9/model.onnx", "x");
    put("latest/10/model.onnx", "x");
    put("latest/011/model.onnx", "x");
    put("listed/1/model.onnx", "x");
    put("listed/2/model.onnx", "x");
    put("listed/9/model.onnx", "x");
    put("listed/config.json", "{\"versions\": [7, 2, 2]}");
    put("short/model.onnx", "x");
    put("split/2/a.onnx", "x");
    put("split/2/model.onnx", "x");
    put("split/config.json", "{\"ranks\": [\"a.onnx\", \"model.onnx\"]}");
    put("splitgap/1/a.onnx", "x");
    put("splitgap/config.json", "{\"ranks\": [\"a.onnx\", \"b.onnx\"]}");
    put("splitnone/model.onnx", "x");
    put("splitnone/config.json", "{\"ranks\": [\"a.onnx\"]}");
    put("splitshort/b.onnx", "x");
    put("splitshort/a.onnx", "x");
    put("splitshort/config.json", "{\"ranks\": [\"b.onnx\", \"a.onnx\"]}");
    assert_int_equal(qn_repository_scan(root, &r, &err), QN_OK);
    describe(&r, got, sizeof got);
    assert_string_equal(got, want);
    char path[256];
    snprintf(path, sizeof path, "%s/short/model.onnx", root);
    assert_string_equal(r.entries[r.n - 5].path, path);
    assert_int_equal(r.entries[r.n - 5].n_files, 1);
    assert_string_equal(r.entries[r.n - 5].files[0], path);
    assert_int_equal(r.entries[r.n - 1].n_files, 2);
    snprintf(path, sizeof path, "%s/splitshort/a.onnx", root);
    assert_string_equal(r.entries[r.n - 1].files[1], path);
    qn_repository_release(&r);

    assert_int_equal(qn_repository_scan_one(root, "every", &r, &err), QN_OK);
    assert_int_equal(r.n, 3);
    snprintf(path, sizeof path, "%s/every/10/model.onnx", root);
    assert_string_equal(r.entries[2].path, path);
    qn_repository_release(&r);
    static const char *const none[] = { "nobody", "../etc", ".hidden", "" };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(qn_repository_scan_one(root, none[i], &r, &err),
                         QN_NOT_FOUND);
    assert_int_equal(qn_repository_scan("/nowhere/at/all", &r, &err),
                     QN_NOT_FOUND);
    assert_int_equal(r.n, 0);
}

static void test_ids(void **state)
{
    char longest[QN_MODEL_ID_MAX + 2];
    static const char *const bad[] = { "", ".", "..", ".a", "a/b", "a b",
                                       "\xc3\xa4", "a\n", "a%" };

    (void)state;
    assert_true(qn_model_id_valid("A-z_0.9"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (qn_model_id_valid(bad[i]))
            fail_msg("'%s' is valid", bad[i]);
    memset(longest, 'a', sizeof longest);
    longest[QN_MODEL_ID_MAX + 1] = 0;
    assert_false(qn_model_id_valid(longest));
    longest[QN_MODEL_ID_MAX] = 0;
    assert_true(qn_model_id_valid(longest));
}

static void test_config(void **state)
{
    static const char text[] =
        "{\"versions\": [3, 1], \"required\": true, \"dynamic_bytes\": \"16M\","
        " \"no_reuse\": true, \"passes\": false, \"device\": \"cpu\","
        " \"precision\": \"bf16\", \"streams\": 3, \"graphs\": false}";
    qn_region region = { 0 };
    qn_model_config c;
    qn_error err = { 0 };

    (void)state;
    assert_int_equal(qn_model_config_parse(text, strlen(text), &region, &c,
                                           &err), QN_OK);
    assert_int_equal(c.versions, QN_VERSIONS_LIST);
    assert_int_equal(c.n_versions, 2);
    assert_int_equal(c.version_list[0], 1);
    assert_int_equal(c.version_list[1], 3);
    assert_true(c.required && c.no_reuse && !c.passes);
    assert_int_equal(c.dynamic_bytes, 16 << 20);
    assert_int_equal(c.device, QN_CONFIG_CPU);
    assert_true(c.has_precision && c.precision == QN_PRECISION_BF16);
    assert_true(c.has_streams && c.streams == 3);
    assert_true(c.has_graphs && !c.graphs);
    assert_int_equal(qn_model_config_parse("{}", 2, &region, &c, &err), QN_OK);
    assert_int_equal(c.versions, QN_VERSIONS_LATEST);
    assert_true(!c.required && !c.no_reuse && c.passes && !c.dynamic_bytes);
    assert_int_equal(c.device, QN_CONFIG_DEVICE_ANY);
    assert_true(!c.has_precision && !c.has_streams && !c.has_graphs);
    qn_region_release(&region);
}

static void test_config_device(void **state)
{
    static const struct {
        const char *text;
        qn_config_device device;
        int ordinal;
    } rows[] = {
        { "{\"device\": \"cpu\"}", QN_CONFIG_CPU, 0 },
        { "{\"device\": \"cuda\"}", QN_CONFIG_CUDA, 0 },
        { "{\"device\": \"cuda:0\"}", QN_CONFIG_CUDA_N, 0 },
        { "{\"device\": \"cuda:17\"}", QN_CONFIG_CUDA_N, 17 },
        { "{\"device\": \"cuda:1023\"}", QN_CONFIG_CUDA_N, 1023 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_region region = { 0 };
        qn_model_config c;
        qn_error err = { 0 };
        qn_status st = qn_model_config_parse(rows[i].text, strlen(rows[i].text),
                                             &region, &c, &err);
        if (st != QN_OK || c.device != rows[i].device ||
            (c.device == QN_CONFIG_CUDA_N && c.ordinal != rows[i].ordinal))
            fail_msg("row %zu: %s \"%s\" %d %d", i, qn_status_name(st),
                     err.text, (int)c.device, c.ordinal);
        qn_region_release(&region);
    }
}

static void test_bad_configs(void **state)
{
    static const struct {
        const char *text;
        qn_status want;
        const char *says;
    } rows[] = {
        { "", QN_FORMAT, "line 1, column 0" },
        { "{\"a\": 1", QN_FORMAT, "line 1" },
        { "[]", QN_TYPE, "the file holds a list, an object expected" },
        { "{\"required\": true, \"required\": true}", QN_FORMAT, "uplicate" },
        { "{\"version\": 1}", QN_INVALID, "did you mean \"versions\"?" },
        { "{\"noreuse\": 1}", QN_INVALID, "did you mean \"no_reuse\"?" },
        { "{\"dynamicBytes\": 1}", QN_INVALID, "mean \"dynamic_bytes\"?" },
        { "{\"versions\": 3}", QN_TYPE, "\"versions\" is an integer" },
        { "{\"versions\": \"newest\"}", QN_INVALID, "is \"newest\"" },
        { "{\"versions\": []}", QN_RANGE, "lists 0 versions" },
        { "{\"versions\": [1, \"2\"]}", QN_TYPE, "\"versions\" is a text" },
        { "{\"versions\": [0]}", QN_RANGE, "versions start at 1" },
        { "{\"required\": 1}", QN_TYPE,
          "\"required\" is an integer, true or false expected" },
        { "{\"passes\": null}", QN_TYPE, "\"passes\" is null" },
        { "{\"no_reuse\": \"yes\"}", QN_TYPE, "\"no_reuse\" is a text" },
        { "{\"dynamic_bytes\": -1}", QN_RANGE, "-1, which is negative" },
        { "{\"dynamic_bytes\": 1.5}", QN_TYPE, "is a real number" },
        { "{\"dynamic_bytes\": \"16T\"}", QN_RANGE, "\"16T\"" },
        { "{\"dynamic_bytes\": \"16MB\"}", QN_RANGE, "\"16MB\"" },
        { "{\"dynamic_bytes\": \"99999999999G\"}", QN_RANGE, "99999999999G" },
        { "{\"dynamic_bytes\": \"\"}", QN_RANGE, "a number of bytes" },
        { "{\"device\": \"gpu\"}", QN_INVALID, "\"cuda:N\" expected" },
        { "{\"device\": \"cuda:\"}", QN_INVALID, "is \"cuda:\"" },
        { "{\"device\": \"cuda:-1\"}", QN_INVALID, "is \"cuda:-1\"" },
        { "{\"device\": \"cuda:1024\"}", QN_INVALID, "is \"cuda:1024\"" },
        { "{\"device\": \"cuda:99999999999\"}", QN_INVALID, "99999999999" },
        { "{\"device\": \"cuda:0,1\"}", QN_INVALID, "is \"cuda:0,1\"" },
        { "{\"device\": \"cudax\"}", QN_INVALID, "is \"cudax\"" },
        { "{\"device\": 0}", QN_TYPE, "\"device\" is an integer" },
        { "{\"batching\": {}}", QN_UNSUPPORTED,
          "\"batching\" is not supported yet" },
        { "{\"precision\": \"f16\"}", QN_INVALID, "is \"f16\"" },
        { "{\"precision\": 16}", QN_TYPE, "\"precision\" is an integer" },
        { "{\"streams\": 5}", QN_RANGE, "is 5, 0 to 4 expected" },
        { "{\"streams\": -1}", QN_RANGE, "is -1" },
        { "{\"streams\": \"2\"}", QN_TYPE, "\"streams\" is a text" },
        { "{\"graphs\": 1}", QN_TYPE, "\"graphs\" is an integer" },
        { "{\"state\": []}", QN_UNSUPPORTED, "\"state\"" },
        { "{\"ranks\": 2}", QN_TYPE, "\"ranks\" is an integer, a list of file "
          "names" },
        { "{\"ranks\": []}", QN_RANGE, "lists 0 files, 1 to 8" },
        { "{\"ranks\": [1,2,3,4,5,6,7,8,9]}", QN_RANGE, "lists 9 files" },
        { "{\"ranks\": [\"a\", 2]}", QN_TYPE, "\"ranks\" is an integer" },
        { "{\"ranks\": [\"../a\"]}", QN_INVALID, "lists \"../a\", the name" },
        { "{\"ranks\": [\"b/a\"]}", QN_INVALID, "lists \"b/a\"" },
        { "{\"ranks\": [\"\"]}", QN_INVALID, "lists \"\"" },
        { "{\"ranks\": [\"a\", \"b\", \"a\"]}", QN_INVALID, "lists \"a\" twice" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_region region = { 0 };
        qn_model_config c;
        qn_error err = { 0 };
        qn_status st = qn_model_config_parse(rows[i].text, strlen(rows[i].text),
                                             &region, &c, &err);
        if (st != rows[i].want || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: %s \"%s\"", i, qn_status_name(st), err.text);
        assert_true(c.passes); /* the defaults */
        qn_region_release(&region);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scan, setup, teardown),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_config_device),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_bad_configs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
