/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/commands.h"
#include "server/cli/text.h"

#include <stdlib.h>
#include <string.h>

static void print_usage(FILE *to)
{
    size_t n;
    const qn_command *all = qn_commands(&n);
    fputs("quern serves ONNX models over HTTP, inside a memory budget.\n\n", to);
    for (size_t i = 0; i < n; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", all[i].name, all[i].args);
        fprintf(to, "  quern %-26s %s\n", left, all[i].summary);
    }
    fputs("  quern version\n\nquern COMMAND --help lists a command's flags.\n",
          to);
}

static const qn_command *find(const char *name)
{
    size_t n;
    const qn_command *all = qn_commands(&n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i].name, name))
            return &all[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[16];
    size_t n;
    const qn_command *all = qn_commands(&n);
    for (size_t i = 0; i < n; i++)
        names[i] = all[i].name;
    const char *near = qn_nearest(name, names, n);
    fprintf(stderr, "quern: unknown command '%s'%s%s%s; see quern help\n", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 2;
}

static int help(int argc, char **argv)
{
    const qn_command *command = argc > 2 ? find(argv[2]) : NULL;
    if (argc > 2 && !command)
        return unknown(argv[2]);
    if (command)
        qn_options_help(command, stdout);
    else
        print_usage(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return help(argc, argv);
    if (!strcmp(name, "version") || !strcmp(name, "--version")) {
        puts("quern " QUERN_VERSION);
        return 0;
    }
    const qn_command *command = find(name);
    if (!command)
        return unknown(name);

    qn_options options;
    qn_error err = { 0 };
    size_t n;
    const qn_command *all = qn_commands(&n);
    qn_status st = qn_options_parse(&options, command, argc - 2, argv + 2,
                                    getenv, all, n, &err);
    int status;
    if (st != QN_OK) {
        status = qn_complain(&err);
        status = status == 1 ? 2 : status;
    } else if (options.help) {
        qn_options_help(command, stdout);
        status = 0;
    } else {
        status = command->run(&options);
    }
    qn_options_release(&options);
    return status;
}
