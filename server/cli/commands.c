/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/graph.h"
#include "server/cli/commands.h"

#define ROWS(a) a, sizeof a / sizeof a[0]

#define FLAG_CONFIG                                                            \
    { "config", "FILE", QN_FLAG_TEXT, NULL, 0, 0, "config file (JSON)" }
#define FLAG_JSON                                                              \
    { "json", NULL, QN_FLAG_BOOL, NULL, 0, 0, "print one JSON object" }
#define FLAG_BUDGET                                                            \
    { "memory-budget", "SIZE", QN_FLAG_SIZE, NULL, 0, 0,                       \
      "memory for everything (default: the limit less an eighth)" }
#define FLAG_THREADS(value)                                                    \
    { "threads", "N", QN_FLAG_INT, value, 0, 256,                              \
      "worker threads (0: as many as cores allowed)" }
#define FLAG_SHAPE                                                             \
    { "shape", "NAME=1x3x8x8", QN_FLAG_LIST, NULL, 0, 0,                       \
      "shape of an input (repeatable; open sizes are 1)" }
#define FLAG_NO_REUSE                                                          \
    { "no-reuse", NULL, QN_FLAG_BOOL, NULL, 0, 0,                              \
      "plain memory: every value its own bytes" }
#define FLAG_NO_PASSES                                                         \
    { "no-passes", NULL, QN_FLAG_BOOL, NULL, 0, 0,                             \
      "no fusion, no layout changes" }

#define FLAGS_DEVICE                                                           \
    { "device", "cpu|cuda:N", QN_FLAG_TEXT, "cpu", 0, 0,                       \
      "where kernels run, if they can; cuda:0,1 for two cards" },              \
    { "device-memory", "SIZE", QN_FLAG_SIZE, NULL, 0, 0,                       \
      "of each card (default: what is free less an eighth)" },                 \
    { "lanes", "N", QN_FLAG_INT, "4", 1, 64,                                   \
      "requests that compute on a card at once" },                             \
    { "streams", "N", QN_FLAG_INT, NULL, 0, 4,                                 \
      "that one request uses (0: as many as pay)" },                           \
    { "precision", "fp32|tf32|fp16|bf16", QN_FLAG_CHOICE, "fp32", 0, 0,        \
      "of products on cards" },                                                \
    { "no-graphs", NULL, QN_FLAG_BOOL, NULL, 0, 0,                             \
      "no captured graphs: every kernel a launch" }

static const qn_flag serve_flags[] = {
    FLAG_CONFIG,
    { "models", "DIR", QN_FLAG_TEXT, NULL, 0, 0,
      "repository: <id>/<version>/model.onnx" },
    { "require", "ID", QN_FLAG_LIST, NULL, 0, 0,
      "model that /readyz waits for (repeatable; default: each is tried)" },
    { "host", "ADDRESS", QN_FLAG_TEXT, "127.0.0.1", 0, 0,
      "listen address; 0.0.0.0 or :: for all" },
    { "port", "N", QN_FLAG_INT, "8000", 0, 65535, "0: any free one" },
    FLAG_BUDGET,
    FLAG_THREADS(NULL),
    FLAGS_DEVICE,
    { "on-device-fault", "exit|cpu", QN_FLAG_CHOICE, "exit", 0, 0,
      "when a card is lost: end, to be restarted, or serve on" },
    { "http-threads", "N", QN_FLAG_INT, "1", 1, 64, "threads of the listener" },
    { "connection-memory", "SIZE", QN_FLAG_SIZE, "32K", 0, 0,
      "buffer of a connection, charged to the budget" },
    { "max-connections", "N", QN_FLAG_INT, "2048", 1, 100000,
      "more are turned away" },
    { "idle-timeout", "TIME", QN_FLAG_DURATION, "60s", 0, 0,
      "close a silent connection" },
    { "max-body", "SIZE", QN_FLAG_SIZE, "64M", 0, 0, "longest request body" },
    { "max-depth", "N", QN_FLAG_INT, "64", 1, 256, "deepest JSON nesting" },
    { "queue", "N", QN_FLAG_INT, "1024", 1, 1000000,
      "requests that may wait for memory and a turn; then 429" },
    { "max-wait", "TIME", QN_FLAG_DURATION, "30s", 0, 0,
      "longest wait for memory and a turn; then 503" },
    { "deadline", "TIME", QN_FLAG_DURATION, NULL, 0, 0,
      "for requests without X-Quern-Deadline-Ms (0: none)" },
    { "drain-timeout", "TIME", QN_FLAG_DURATION, "30s", 0, 0,
      "longest wait for running requests at the end" },
    { "half-close-cancels", NULL, QN_FLAG_BOOL, NULL, 0, 0,
      "treat a client's half-close as gone" },
    { "nan", "string|token", QN_FLAG_CHOICE, "string", 0, 0,
      "how NaN and infinities are printed" },
    { "log-level", "debug|info|warn|error", QN_FLAG_CHOICE, "info", 0, 0,
      "what goes to stderr, as JSON lines" },
};

static const qn_flag run_flags[] = {
    FLAG_CONFIG,
    { "input", "NAME=FILE", QN_FLAG_LIST, NULL, 0, 0,
      ".npy or .pb; without a name: by position" },
    { "output-dir", "DIR", QN_FLAG_TEXT, NULL, 0, 0,
      "write each output as <name>.npy, or .pb for types that NumPy lacks" },
    FLAG_SHAPE,
    { "any-shape", NULL, QN_FLAG_BOOL, NULL, 0, 0,
      "declared input shapes are advice" },
    { "made-up", NULL, QN_FLAG_BOOL, NULL, 0, 0,
      "make up the inputs that are not given" },
    FLAG_BUDGET,
    FLAG_THREADS(NULL),
    FLAGS_DEVICE,
    { "dynamic-bytes", "SIZE", QN_FLAG_SIZE, NULL, 0, 0,
      "memory for values of unplanned size" },
    FLAG_NO_REUSE,
    FLAG_NO_PASSES,
    FLAG_JSON,
};

static const qn_flag inspect_flags[] = {
    FLAG_CONFIG, FLAG_SHAPE,    FLAG_BUDGET, FLAG_THREADS(NULL),
    FLAGS_DEVICE,
    { "values", "N", QN_FLAG_INT, "12", 0, 1000000,
      "rows of the memory table, largest first" },
    { "layout", "FILE", QN_FLAG_TEXT, NULL, 0, 0,
      "write the planned memory as CSV" },
    FLAG_NO_REUSE, FLAG_NO_PASSES, FLAG_JSON,
};

static const qn_flag verify_flags[] = {
    FLAG_CONFIG,
    { "jobs", "N", QN_FLAG_INT, NULL, 0, 64, "cases at once (0: cores)" },
    { "batch", "N", QN_FLAG_INT, "1", 1, 10000,
      "cases of one process, which opens the device once" },
    { "timeout", "TIME", QN_FLAG_DURATION, "120s", 0, 0, "limit of a case" },
    { "rtol", "X", QN_FLAG_NUMBER, "1e-3", 0, 0, "relative tolerance" },
    { "atol", "X", QN_FLAG_NUMBER, "1e-7", 0, 0, "absolute tolerance" },
    FLAG_THREADS("1"),
    FLAG_BUDGET,
    FLAGS_DEVICE,
    FLAG_NO_REUSE,
    FLAG_NO_PASSES,
    { "quiet", NULL, QN_FLAG_BOOL, NULL, 0, 0, "no list of skipped reasons" },
    FLAG_JSON,
};

static const qn_flag plan_flags[] = {
    FLAG_CONFIG,
    { "capacity", "SIZE", QN_FLAG_SIZE, NULL, 0, 0,
      "fail if the layout needs more" },
    { "output", "FILE", QN_FLAG_TEXT, NULL, 0, 0,
      "write the rows with their offsets" },
    { "no-reuse", NULL, QN_FLAG_BOOL, NULL, 0, 0,
      "plain memory: every buffer its own bytes" },
    { "steps", "N", QN_FLAG_INT, NULL, 0, 0,
      "steps of the local search (0: the planner's own choice)" },
    FLAG_JSON,
};

static const qn_flag bench_flags[] = {
    FLAG_CONFIG,
    FLAG_SHAPE,
    FLAG_THREADS(NULL),
    { "concurrency", "N", QN_FLAG_INT, "1", 1, 4096, "calls in flight" },
    { "runs", "N", QN_FLAG_INT, NULL, 0, 0, "in all (0: by duration)" },
    { "duration", "TIME", QN_FLAG_DURATION, "5s", 0, 0, "how long" },
    { "warmup", "N", QN_FLAG_INT, "5", 0, 1000000,
      "calls of each thread that do not count" },
    { "body", "FILE", QN_FLAG_TEXT, NULL, 0, 0,
      "URL: request body (default: the model's example)" },
    { "timeout", "TIME", QN_FLAG_DURATION, "60s", 0, 0, "URL: of one call" },
    FLAG_BUDGET,
    FLAGS_DEVICE,
    FLAG_NO_PASSES,
    FLAG_JSON,
};

static const qn_flag op_flags[] = {
    FLAG_CONFIG,
    { "attr", "NAME=VALUE", QN_FLAG_LIST, NULL, 0, 0,
      "2, 0.5, 1,2,3 (a list of one: 1,), or text" },
    { "input", "FILE", QN_FLAG_LIST, NULL, 0, 0, ".npy or .pb, in order" },
    { "opset", "N", QN_FLAG_INT, "28", 1, 1000, "version of the operator" },
    { "outputs", "N", QN_FLAG_INT, "1", 1, 32, "how many outputs" },
    { "output", "FILE", QN_FLAG_TEXT, NULL, 0, 0,
      "write the first output as .npy" },
    { "list", NULL, QN_FLAG_BOOL, NULL, 0, 0,
      "list the operators and the opsets of their versions" },
};

static const qn_flag healthcheck_flags[] = {
    { "timeout", "TIME", QN_FLAG_DURATION, "3s", 0, 0, "of connect and answer" },
};

static const qn_command commands[] = {
    { "serve", "", "serve the models of a folder over HTTP",
      "quern serve --models models/examples --memory-budget 512M", 0, 0,
      ROWS(serve_flags), qn_cmd_serve },
    { "run", "MODEL.onnx [RANK1.onnx ...]", "one inference, no server",
      "quern run model.onnx --input x=x.npy --output-dir out", 1, QN_GRAPH_RANKS,
      ROWS(run_flags), qn_cmd_run },
    { "inspect", "MODEL.onnx [RANK1.onnx ...]",
      "operators, coverage, memory plan",
      "quern inspect model.onnx --shape x=1x3x224x224", 1, QN_GRAPH_RANKS,
      ROWS(inspect_flags), qn_cmd_inspect },
    { "verify", "DIR...", "run ONNX backend test folders",
      "quern verify /usr/share/libonnx-testdata/data", 1, -1,
      ROWS(verify_flags), qn_cmd_verify },
    { "plan", "FILE.csv", "the memory planner alone",
      "quern plan buffers.csv --output placed.csv", 1, 1, ROWS(plan_flags),
      qn_cmd_plan },
    { "bench", "MODEL.onnx [RANK1.onnx ...]|URL",
      "latency and throughput, with spread",
      "quern bench http://127.0.0.1:8000/v1/models/digits --concurrency 8", 1,
      QN_GRAPH_RANKS, ROWS(bench_flags), qn_cmd_bench },
    { "op", "[OP]", "one operator, or a list of all",
      "quern op Softmax --attr axis=1 --input x.npy", 0, 1, ROWS(op_flags),
      qn_cmd_op },
    { "healthcheck", "[URL]", "ask a server whether it is ready",
      "quern healthcheck http://127.0.0.1:8000/readyz", 0, 1,
      ROWS(healthcheck_flags), qn_cmd_healthcheck },
};

const qn_command *qn_commands(size_t *n)
{
    *n = sizeof commands / sizeof commands[0];
    return commands;
}
