/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/commands.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int never(const qn_options *options)
{
    (void)options;
    return 0;
}

static const qn_flag flags[] = {
    { "config", "FILE", QN_FLAG_TEXT, NULL, 0, 0, "" },
    { "host", "ADDRESS", QN_FLAG_TEXT, "localhost", 0, 0, "" },
    { "port", "N", QN_FLAG_INT, "8000", 0, 65535, "" },
    { "memory-budget", "SIZE", QN_FLAG_SIZE, NULL, 0, 0, "" },
    { "idle-timeout", "TIME", QN_FLAG_DURATION, "60s", 0, 0, "" },
    { "json", NULL, QN_FLAG_BOOL, NULL, 0, 0, "" },
    { "require", "ID", QN_FLAG_LIST, NULL, 0, 0, "" },
    { "nan", "string|token", QN_FLAG_CHOICE, "string", 0, 0, "" },
    { "rtol", "X", QN_FLAG_NUMBER, "1e-3", 0, 0, "" },
};
static const qn_flag other_flags[] = {
    { "duration", "TIME", QN_FLAG_DURATION, NULL, 0, 0, "" },
};
static const qn_command known[] = {
    { "serve", "ARG", "", NULL, 0, 2, flags, sizeof flags / sizeof flags[0],
      never },
    { "bench", "", "", NULL, 0, 0, other_flags, 1, never },
};

static const char *env_name, *env_value;

static char *fake_env(const char *name)
{
    union {
        const char *from;
        char *to;
    } v = { .from = env_name && !strcmp(name, env_name) ? env_value : NULL };
    return v.to;
}

enum { MAX_ARGV = 8 };

static qn_status parse(qn_options *o, const char *const *args, qn_error *err)
{
    char *argv[MAX_ARGV];
    int n = 0;
    for (; n < MAX_ARGV && args[n]; n++)
        argv[n] = strdup(args[n]);
    qn_status st = qn_options_parse(o, &known[0], n, argv, fake_env, known, 2,
                                    err);
    /* positional arguments are borrowed: none is read after this */
    for (int i = 0; i < n; i++)
        free(argv[i]);
    return st;
}

static void test_sizes_and_times(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes, ms; /* -1: not one */
    } rows[] = {
        { "512", 512, 512000 },   { "32K", 32768, -1 },
        { "2G", 1LL << 31, -1 },  { "1.5M", 1572864, 90000 },
        { "10s", -1, 10000 },     { "500ms", -1, 500 },
        { "2m", 2 << 20, 120000 }, { "1h", -1, 3600000 },
        { "0.5s", -1, 500 },      { "", -1, -1 },
        { "K", -1, -1 },          { "-1", -1, -1 },
        { "1Q", -1, -1 },         { "99999999999999T", -1, -1 },
        { "1e300", -1, -1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t bytes = -1, ms = -1;
        qn_parse_size(rows[i].text, &bytes);
        qn_parse_duration(rows[i].text, &ms);
        if (bytes != rows[i].bytes || ms != rows[i].ms)
            fail_msg("'%s': %lld bytes, %lld ms", rows[i].text,
                     (long long)bytes, (long long)ms);
    }
}

static void test_defaults(void **state)
{
    qn_options o;
    qn_error err = { 0 };
    const char *const *list;
    (void)state;
    env_name = NULL;
    assert_int_equal(parse(&o, (const char *[]){ NULL }, &err), QN_OK);
    assert_string_equal(qn_opt_text(&o, "host"), "localhost");
    assert_int_equal(qn_opt_int(&o, "port"), 8000);
    assert_int_equal(qn_opt_int(&o, "idle-timeout"), 60000);
    assert_int_equal(qn_opt_size(&o, "memory-budget"), 0);
    assert_false(qn_opt_bool(&o, "json"));
    assert_int_equal(qn_opt_list(&o, "require", &list), 0);
    assert_true(qn_opt_number(&o, "rtol") == 1e-3);
    qn_options_release(&o);
}

static void test_line(void **state)
{
    qn_options o;
    qn_error err = { 0 };
    const char *const *list;
    (void)state;
    env_name = NULL;
    assert_int_equal(parse(&o,
                           (const char *[]){ "--port=9", "--json", "--require",
                                             "a", "--require", "b", "--nan",
                                             "token" },
                           &err),
                     QN_OK);
    assert_int_equal(qn_opt_int(&o, "port"), 9);
    assert_true(qn_opt_bool(&o, "json"));
    assert_int_equal(qn_opt_list(&o, "require", &list), 2);
    assert_string_equal(list[1], "b");
    assert_string_equal(qn_opt_text(&o, "nan"), "token");
    qn_options_release(&o);
}

static void test_rejects(void **state)
{
    static const struct {
        const char *args[4];
        const char *says;
    } rows[] = {
        { { "--prot", "1" }, "did you mean --port?" },
        { { "--memorybudget=1" }, "did you mean --memory-budget?" },
        { { "--zzzzzzzz" }, "see quern serve --help" },
        { { "--port" }, "needs a value" },
        { { "--port", "x" }, "not a whole number" },
        { { "--port", "70000" }, "between 0 and 65535" },
        { { "--nan", "maybe" }, "string|token" },
        { { "--json=perhaps" }, "true or false" },
        { { "--memory-budget", "lots" }, "a size" },
        { { "--idle-timeout", "soon" }, "a time" },
        { { "--rtol", "-1" }, "a number" },
        { { "-x" }, "two dashes" },
        { { "a", "b", "c" }, "unexpected argument 'c'" },
    };
    (void)state;
    env_name = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_options o;
        qn_error err = { 0 };
        qn_status st = parse(&o, rows[i].args, &err);
        if (st != QN_INVALID || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: status %d, \"%s\"", i, (int)st, err.text);
        qn_options_release(&o);
    }
}

/* A config file with the given text; the path is static. */
static const char *config(const char *text)
{
    static char path[] = "/tmp/quern-options-XXXXXX";
    static char name[sizeof path];
    memcpy(name, path, sizeof path);
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return name;
}

static void test_precedence(void **state)
{
    static const struct {
        const char *file, *env, *line;
        int64_t want;
    } rows[] = {
        { "{}", NULL, NULL, 8000 },
        { "{\"port\": 1}", NULL, NULL, 1 },
        { "{\"port\": \"1\"}", "2", NULL, 2 },
        { "{\"port\": 1}", "2", "3", 3 },
        { "{\"port\": 1}", NULL, "3", 3 },
        { "{\"duration\": \"5s\"}", "2", NULL, 2 }, /* another command's */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_options o;
        qn_error err = { 0 };
        const char *path = config(rows[i].file);
        const char *args[5] = { "--config", path };
        if (rows[i].line) {
            args[2] = "--port";
            args[3] = rows[i].line;
        }
        env_name = "QUERN_PORT";
        env_value = rows[i].env;
        qn_status st = parse(&o, args, &err);
        unlink(path);
        if (st != QN_OK || qn_opt_int(&o, "port") != rows[i].want)
            fail_msg("row %zu: %s, port %lld", i, err.text,
                     (long long)qn_opt_int(&o, "port"));
        qn_options_release(&o);
    }
}

static void test_config_errors(void **state)
{
    static const struct {
        const char *file, *says;
    } rows[] = {
        { "{\"memory_budgt\": 1}", "did you mean memory_budget?" },
        { "{\"port\": {}}", "expected a string" },
        { "{\"require\": [1]}", "entry 0 is not a string" },
        { "{\"port\": 99999}", "between 0 and 65535" },
        { "{\"port\": 1, \"port\": 2}", "line 1" },
        { "[]", "not an object" },
        { "{", "line 1" },
    };
    (void)state;
    env_name = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_options o;
        qn_error err = { 0 };
        const char *path = config(rows[i].file);
        qn_status st =
            parse(&o, (const char *[]){ "--config", path, NULL }, &err);
        unlink(path);
        if (st == QN_OK || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: status %d, \"%s\"", i, (int)st, err.text);
        qn_options_release(&o);
    }
}

static void test_environment_error_names_variable(void **state)
{
    qn_options o;
    qn_error err = { 0 };
    (void)state;
    env_name = "QUERN_MEMORY_BUDGET";
    env_value = "lots";
    assert_int_equal(parse(&o, (const char *[]){ NULL }, &err), QN_INVALID);
    assert_non_null(strstr(err.text, "QUERN_MEMORY_BUDGET"));
    qn_options_release(&o);
}

/* Help fits a screen, and no two flags of a command share a name. */
static void test_commands(void **state)
{
    size_t n;
    const qn_command *all = qn_commands(&n);
    (void)state;
    for (size_t c = 0; c < n; c++) {
        assert_true(all[c].n_flags <= QN_MAX_FLAGS);
        assert_true(all[c].n_flags + 12 <= 40);
        for (size_t i = 0; i < all[c].n_flags; i++)
            for (size_t k = 0; k < i; k++)
                if (!strcmp(all[c].flags[i].name, all[c].flags[k].name))
                    fail_msg("%s: --%s twice", all[c].name,
                             all[c].flags[i].name);
        /* every default must be a value of its own flag */
        qn_options o;
        qn_error err = { 0 };
        env_name = NULL;
        qn_status st = qn_options_parse(&o, &all[c], 0, NULL, fake_env, all, n,
                                        &err);
        if (st != QN_OK && !strstr(err.text, "missing argument"))
            fail_msg("%s: %s", all[c].name, err.text);
        qn_options_release(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_and_times),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_rejects),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_config_errors),
        cmocka_unit_test(test_environment_error_names_variable),
        cmocka_unit_test(test_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
