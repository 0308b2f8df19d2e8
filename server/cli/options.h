/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags. A command is a row, a flag is a row; everything else is derived: the
 * parser, the environment variable QUERN_<FLAG>, the key in the config file
 * (JSON, dashes become underscores) and --help.
 *
 * Precedence: command line, environment, config file, default.
 */
#ifndef QN_SERVER_CLI_OPTIONS_H
#define QN_SERVER_CLI_OPTIONS_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum qn_flag_kind {
    QN_FLAG_TEXT,
    QN_FLAG_LIST,     /* may be given several times */
    QN_FLAG_BOOL,     /* --x, --x=false, --no-x */
    QN_FLAG_INT,      /* within min..max of the row */
    QN_FLAG_NUMBER,   /* a decimal fraction >= 0 */
    QN_FLAG_SIZE,     /* bytes: 512, 32K, 2G, 1.5M (powers of 1024) */
    QN_FLAG_DURATION, /* kept in milliseconds: 500ms, 10s, 2m, 1h; 3 is 3 s */
    QN_FLAG_CHOICE    /* one of the words in `meta`, separated by '|' */
} qn_flag_kind;

typedef struct qn_flag {
    const char *name; /* without the dashes */
    const char *meta; /* what stands for the value in --help; NULL for BOOL */
    qn_flag_kind kind;
    const char *value; /* default as text; NULL: unset, which reads as 0 */
    int64_t min, max;  /* INT only; both 0: any */
    const char *help;
} qn_flag;

enum { QN_MAX_FLAGS = 40 };

typedef struct qn_options qn_options;

typedef struct qn_command {
    const char *name;
    const char *args;    /* "MODEL.onnx", "" */
    const char *summary; /* one line */
    const char *example; /* one line, NULL: none */
    int min_args, max_args; /* max -1: any number */
    const qn_flag *flags;
    size_t n_flags;
    int (*run)(const qn_options *options); /* returns the exit status */
} qn_command;

typedef struct qn_option_value {
    int64_t number;  /* INT, SIZE, DURATION (ms), BOOL */
    double fraction; /* NUMBER */
    char *text;      /* TEXT, CHOICE */
    char **list;     /* LIST */
    size_t n_list;
    int rank; /* where it came from: 0 default, 1 file, 2 environment, 3 line */
} qn_option_value;

struct qn_options {
    const qn_command *command;
    qn_option_value values[QN_MAX_FLAGS];
    const char *const *args; /* positional, borrowed from argv */
    int n_args;
    const char **args_owned;
    bool help;
};

/*
 * Parse argv[0..argc) (what follows the command's name). `env` looks a variable
 * up (getenv; tests pass their own); `known` are all commands, so that a config
 * file may hold keys of several. QN_INVALID: unknown flag (with the nearest),
 * bad value, too few or many arguments; QN_NOT_FOUND, QN_FORMAT: config file.
 * Release in every case.
 */
QN_NODISCARD qn_status qn_options_parse(qn_options *out,
                                        const qn_command *command, int argc,
                                        char **argv,
                                        char *(*env)(const char *name),
                                        const qn_command *known, size_t n_known,
                                        qn_error *err);
void qn_options_release(qn_options *options);

/* Reading. The flag must be in the command's table. */
const char *qn_opt_text(const qn_options *options, const char *flag);
int64_t qn_opt_int(const qn_options *options, const char *flag);
bool qn_opt_bool(const qn_options *options, const char *flag);
double qn_opt_number(const qn_options *options, const char *flag);
size_t qn_opt_size(const qn_options *options, const char *flag);
size_t qn_opt_list(const qn_options *options, const char *flag,
                   const char *const **out);

/* "quern serve" help: usage, flags with defaults; fits a screen. */
void qn_options_help(const qn_command *command, FILE *to);

/* The candidate nearest to `word`, NULL if none is near (more than a third of
 * its letters would change). */
const char *qn_nearest(const char *word, const char *const *candidates,
                       size_t n);

/* "2G" to bytes, "1.5s" to milliseconds. False if it is not one. */
bool qn_parse_size(const char *text, int64_t *bytes);
bool qn_parse_duration(const char *text, int64_t *ms);

#endif
