/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in of NCCL: collectives against loops, one thread and several,
 * and what must be reported. */
#include "tests/cuda/emu/client.h"

#include <math.h>
#include <nccl.h>
#include <pthread.h>

#define FUNCTIONS(X)                                                           \
    X(version, ncclGetVersion)                                                 \
    X(unique_id, ncclGetUniqueId)                                              \
    X(init_all, ncclCommInitAll)                                               \
    X(init_rank, ncclCommInitRank)                                             \
    X(destroy, ncclCommDestroy)                                                \
    X(abort_comm, ncclCommAbort)                                               \
    X(size, ncclCommCount)                                                     \
    X(user_rank, ncclCommUserRank)                                             \
    X(device, ncclCommCuDevice)                                                \
    X(async, ncclCommGetAsyncError)                                            \
    X(text, ncclGetErrorString)                                                \
    X(start, ncclGroupStart)                                                   \
    X(end, ncclGroupEnd)                                                       \
    X(all_reduce, ncclAllReduce)                                               \
    X(all_gather, ncclAllGather)                                               \
    X(reduce_scatter, ncclReduceScatter)                                       \
    X(broadcast, ncclBroadcast)                                                \
    X(reduce, ncclReduce)

static struct {
    FUNCTIONS(CLIENT_FIELD)
} fn;

enum { RANKS = 3, MOST = 1500 };

static CUcontext contexts[RANKS];
static CUstream streams[RANKS];
static ncclComm_t comms[RANKS];

static void use(int rank)
{
    assert_int_equal(cu.set_current(contexts[rank]), CUDA_SUCCESS);
}

static void open_all(void)
{
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(cu.retain(&contexts[r], r), CUDA_SUCCESS);
        use(r);
        assert_int_equal(cu.stream_new(&streams[r], CU_STREAM_NON_BLOCKING),
                         CUDA_SUCCESS);
    }
    assert_int_equal(fn.init_all(comms, RANKS, NULL), ncclSuccess);
}

static int setup(void **state)
{
    (void)state;
    open_all();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        use(r);
        assert_int_equal(cu.sync(streams[r]), CUDA_SUCCESS);
        assert_int_equal(fn.destroy(comms[r]), ncclSuccess);
        cu.stream_free(streams[r]);
    }
    use(0);
    return 0;
}

/* --- types: element i as double, and back */

static size_t size_of(ncclDataType_t t)
{
    return t == ncclInt64 || t == ncclUint64 || t == ncclFloat64 ? 8
           : t == ncclInt8 || t == ncclUint8                     ? 1
           : t == ncclFloat16 || t == ncclBfloat16               ? 2
                                                                 : 4;
}

#define AS(type)                                                               \
    {                                                                          \
        type v_ = (type)v;                                                     \
        memcpy(at, &v_, sizeof v_);                                            \
        return;                                                                \
    }
/* Small integers: exact in each type; both narrow formats by hand. */
static void put(ncclDataType_t t, void *base, size_t i, double v)
{
    char *at = (char *)base + i * size_of(t);
    float f = (float)v;
    uint32_t u;
    uint16_t h;
    switch (t) {
    case ncclInt8:
        AS(int8_t)
    case ncclUint8:
        AS(uint8_t)
    case ncclInt32:
        AS(int32_t)
    case ncclUint32:
        AS(uint32_t)
    case ncclInt64:
        AS(int64_t)
    case ncclUint64:
        AS(uint64_t)
    case ncclFloat32:
        AS(float)
    case ncclFloat64:
        AS(double)
    default:
        memcpy(&u, &f, 4);
        h = (uint16_t)(u >> 16);
        if (t == ncclFloat16)
            h = u & 0x7fffffffu
                    ? (uint16_t)((u >> 16 & 0x8000u) |
                                 ((u >> 13 & 0x3ffffu) - (112u << 10)))
                    : 0;
        memcpy(at, &h, 2);
    }
}

#define FROM(type)                                                             \
    {                                                                          \
        type v_;                                                               \
        memcpy(&v_, at, sizeof v_);                                            \
        return (double)v_;                                                     \
    }
static double take(ncclDataType_t t, const void *base, size_t i)
{
    const char *at = (const char *)base + i * size_of(t);
    uint16_t h;
    uint32_t u;
    float f;
    switch (t) {
    case ncclInt8:
        FROM(int8_t)
    case ncclUint8:
        FROM(uint8_t)
    case ncclInt32:
        FROM(int32_t)
    case ncclUint32:
        FROM(uint32_t)
    case ncclInt64:
        FROM(int64_t)
    case ncclUint64:
        FROM(uint64_t)
    case ncclFloat32:
        FROM(float)
    case ncclFloat64:
        FROM(double)
    default:
        memcpy(&h, at, 2);
        if (t == ncclFloat16) {
            int e = h >> 10 & 31;
            double v = e ? ldexp(1024 + (h & 1023), e - 25)
                         : ldexp(h & 1023, -24);
            return h >> 15 ? -v : v;
        }
        u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
        return (double)f;
    }
}

/* What rank r sends: integers from 1 to 6. */
static double sent(int r, size_t i)
{
    return (double)((i * 7 + (size_t)r * 3) % 6 + 1);
}

static double reduced(ncclRedOp_t op, size_t i)
{
    double v = sent(0, i);
    for (int r = 1; r < RANKS; r++) {
        double w = sent(r, i);
        v = op == ncclProd  ? v * w
            : op == ncclMax ? fmax(v, w)
            : op == ncclMin ? fmin(v, w)
                            : v + w;
    }
    return op == ncclAvg ? v / RANKS : v;
}

/* --- one thread and a group */

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE };

struct row {
    const char *name;
    enum kind kind;
    ncclDataType_t type;
    ncclRedOp_t op;
    size_t count;
    int root, in_place;
};

static const struct row rows[] = {
    { "sum of floats", ALL_REDUCE, ncclFloat32, ncclSum, 1500, 0, 0 },
    { "in place", ALL_REDUCE, ncclFloat32, ncclSum, 700, 0, 1 },
    { "nothing", ALL_REDUCE, ncclFloat32, ncclSum, 0, 0, 1 },
    { "product of doubles", ALL_REDUCE, ncclFloat64, ncclProd, 5, 0, 0 },
    { "max of halves", ALL_REDUCE, ncclFloat16, ncclMax, 33, 0, 0 },
    { "sum of halves", ALL_REDUCE, ncclFloat16, ncclSum, 33, 0, 0 },
    { "min of bfloat16", ALL_REDUCE, ncclBfloat16, ncclMin, 33, 0, 0 },
    { "mean of floats", ALL_REDUCE, ncclFloat32, ncclAvg, 33, 0, 0 },
    { "mean of integers", ALL_REDUCE, ncclInt32, ncclAvg, 33, 0, 0 },
    { "bytes", ALL_REDUCE, ncclUint8, ncclSum, 33, 0, 0 },
    { "signed bytes", ALL_REDUCE, ncclInt8, ncclMax, 33, 0, 0 },
    { "wide integers", ALL_REDUCE, ncclInt64, ncclProd, 600, 0, 0 },
    { "wide unsigned", ALL_REDUCE, ncclUint64, ncclMin, 6, 0, 0 },
    { "unsigned", ALL_REDUCE, ncclUint32, ncclSum, 6, 0, 0 },
    { "gather", ALL_GATHER, ncclFloat32, ncclSum, 300, 0, 0 },
    { "gather in place", ALL_GATHER, ncclInt8, ncclSum, 31, 0, 1 },
    { "scatter", REDUCE_SCATTER, ncclFloat32, ncclSum, 300, 0, 0 },
    { "scatter in place", REDUCE_SCATTER, ncclFloat64, ncclMax, 100, 0, 1 },
    { "broadcast", BROADCAST, ncclFloat32, ncclSum, 300, 2, 0 },
    { "broadcast in place", BROADCAST, ncclFloat16, ncclSum, 300, 1, 1 },
    { "reduce", REDUCE, ncclFloat32, ncclSum, 300, 1, 0 },
};

static ncclResult_t call(const struct row *r, int rank, const void *send,
                         void *recv)
{
    ncclComm_t c = comms[rank];
    CUstream s = streams[rank];
    switch (r->kind) {
    case ALL_REDUCE:
        return fn.all_reduce(send, recv, r->count, r->type, r->op, c, s);
    case ALL_GATHER:
        return fn.all_gather(send, recv, r->count, r->type, c, s);
    case REDUCE_SCATTER:
        return fn.reduce_scatter(send, recv, r->count, r->type, r->op, c, s);
    case BROADCAST:
        return fn.broadcast(send, recv, r->count, r->type, r->root, c, s);
    default:
        return fn.reduce(send, recv, r->count, r->type, r->op, r->root, c, s);
    }
}

static void check(const struct row *r, int rank, const void *got)
{
    size_t n = r->kind == ALL_GATHER ? r->count * RANKS : r->count;
    if (r->kind == REDUCE && rank != r->root)
        return;
    for (size_t i = 0; i < n; i++) {
        double want = r->kind == ALL_GATHER
                          ? sent((int)(i / r->count), i % r->count)
                      : r->kind == BROADCAST ? sent(r->root, i)
                      : r->kind == REDUCE_SCATTER
                          ? reduced(r->op, (size_t)rank * r->count + i)
                          : reduced(r->op, i);
        if (r->type == ncclInt32)
            want = trunc(want);
        double value = take(r->type, got, i);
        if (!(fabs(value - want) <= 1e-6 * fabs(want)))
            fail_msg("%s, rank %d, [%zu]: %g, not %g", r->name, rank, i, value,
                     want);
    }
}

static void run_row(const struct row *r)
{
    /* each rank's one buffer: input, then output; or both in one */
    size_t size = size_of(r->type), whole = MOST * RANKS;
    char *host = malloc(2 * whole * size), *device[RANKS], *out[RANKS];
    assert_non_null(host);
    for (int rank = 0; rank < RANKS; rank++) {
        use(rank);
        size_t mine = (size_t)rank * r->count;
        size_t in_at = r->in_place && r->kind == ALL_GATHER ? mine : 0;
        memset(host, 0x5a, 2 * whole * size);
        for (size_t i = 0; i < r->count * (r->kind == REDUCE_SCATTER ? RANKS : 1);
             i++)
            put(r->type, host, in_at + i, sent(rank, i));
        device[rank] = client_buffer(host, 2 * whole * size);
        out[rank] = device[rank] + (r->in_place ? 0 : whole * size);
        if (r->in_place && r->kind == REDUCE_SCATTER)
            out[rank] += mine * size;
    }
    assert_int_equal(fn.start(), ncclSuccess);
    for (int rank = 0; rank < RANKS; rank++) {
        size_t at = r->in_place && r->kind == ALL_GATHER
                        ? (size_t)rank * r->count * size
                        : 0;
        assert_int_equal(call(r, rank, device[rank] + at, out[rank]),
                         ncclSuccess);
    }
    assert_int_equal(fn.end(), ncclSuccess);
    for (int rank = 0; rank < RANKS; rank++) {
        use(rank);
        assert_int_equal(cu.sync(streams[rank]), CUDA_SUCCESS);
        client_read(host, out[rank], whole * size);
        check(r, rank, host);
        client_release(device[rank]);
    }
    free(host);
}

static void test_collectives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        run_row(&rows[i]);
    assert_true(cu.count("ncclAllReduce") >= RANKS);
    assert_true(cu.count("nccl.all_reduce") >= RANKS);
}

static void test_queries(void **state)
{
    (void)state;
    int v = 0;
    ncclResult_t r = ncclInternalError;
    assert_int_equal(fn.version(&v), ncclSuccess);
    assert_int_equal(v, NCCL_VERSION_CODE);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(fn.size(comms[rank], &v), ncclSuccess);
        assert_int_equal(v, RANKS);
        assert_int_equal(fn.user_rank(comms[rank], &v), ncclSuccess);
        assert_int_equal(v, rank);
        assert_int_equal(fn.device(comms[rank], &v), ncclSuccess);
        assert_int_equal(v, rank);
        assert_int_equal(fn.async(comms[rank], &r), ncclSuccess);
        assert_int_equal(r, ncclSuccess);
    }
    assert_string_equal(fn.text(ncclInvalidUsage), "invalid usage");
}

static void test_errors(void **state)
{
    (void)state;
    ncclComm_t two[2];
    int twice[2] = { 1, 1 }, beyond[2] = { 0, RANKS };
    use(0);
    char *m = client_buffer(NULL, 256);
    assert_int_equal(fn.init_all(two, 2, twice), ncclInvalidUsage);
    assert_int_equal(fn.init_all(two, 2, beyond), ncclInvalidArgument);
    assert_int_equal(fn.end(), ncclInvalidUsage);
    assert_int_equal(fn.all_reduce(m, m, 4, ncclFloat8e4m3, ncclSum, comms[0],
                                   streams[0]),
                     ncclInvalidArgument);
    assert_int_equal(fn.broadcast(m, m, 4, ncclFloat32, RANKS, comms[0],
                                  streams[0]),
                     ncclInvalidArgument);
    /* a stream of another device */
    assert_int_equal(fn.all_reduce(m, m, 4, ncclFloat32, ncclSum, comms[0],
                                   streams[1]),
                     ncclInvalidUsage);
    /* an error within a group is the group's too, and nothing is started */
    assert_int_equal(fn.start(), ncclSuccess);
    assert_int_equal(fn.all_reduce(m, m, 4, ncclFloat32, ncclSum, comms[0],
                                   streams[0]),
                     ncclSuccess);
    cu.fail_at("ncclAllReduce", 1, ncclSystemError);
    assert_int_equal(fn.all_reduce(m, m, 4, ncclFloat32, ncclSum, comms[1],
                                   streams[1]),
                     ncclSystemError);
    assert_int_equal(fn.end(), ncclSystemError);
    client_release(m);
}

/* A graph per rank; at each launch the ranks meet anew. */
static void test_capture(void **state)
{
    (void)state;
    CUgraphExec exec[RANKS];
    char *device[RANKS];
    float host[4];
    for (int r = 0; r < RANKS; r++) {
        use(r);
        for (size_t i = 0; i < 4; i++)
            host[i] = (float)sent(r, i);
        device[r] = client_buffer(host, sizeof host);
    }
    for (int r = 0; r < RANKS; r++) {
        use(r);
        assert_int_equal(
            cu.capture(streams[r], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), 0);
    }
    assert_int_equal(fn.start(), ncclSuccess);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(fn.all_reduce(device[r], device[r], 4, ncclFloat32,
                                       ncclSum, comms[r], streams[r]),
                         ncclSuccess);
    assert_int_equal(fn.end(), ncclSuccess);
    for (int r = 0; r < RANKS; r++) {
        use(r);
        exec[r] = client_captured(streams[r]);
    }
    for (int launch = 0; launch < 2; launch++)
        for (int r = 0; r < RANKS; r++) {
            use(r);
            assert_int_equal(cu.launch(exec[r], streams[r]), CUDA_SUCCESS);
        }
    for (int r = 0; r < RANKS; r++) {
        use(r);
        assert_int_equal(cu.sync(streams[r]), CUDA_SUCCESS);
        client_read(host, device[r], sizeof host);
        for (size_t i = 0; i < 4; i++)
            assert_true((double)host[i] == RANKS * reduced(ncclSum, i));
        cu.exec_free(exec[r]);
        client_release(device[r]);
    }
}

/* --- a thread per rank */

struct worker {
    ncclUniqueId id;
    int rank;
    float got[4];
    bool ok;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    ncclComm_t comm = NULL;
    CUstream stream;
    CUdeviceptr m = 0;
    float mine[4];
    for (int i = 0; i < 4; i++)
        mine[i] = (float)sent(w->rank, (size_t)i);
    w->ok = cu.set_current(contexts[w->rank]) == CUDA_SUCCESS &&
            cu.stream_new(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
            cu.alloc(&m, sizeof mine) == CUDA_SUCCESS &&
            cu.to_device(m, mine, sizeof mine) == CUDA_SUCCESS &&
            fn.init_rank(&comm, RANKS, w->id, w->rank) == ncclSuccess;
    void *at = (void *)(uintptr_t)m;
    /* twice, in place: sums of sums */
    for (int i = 0; w->ok && i < 2; i++)
        w->ok = fn.all_reduce(at, at, 4, ncclFloat32, ncclSum, comm, stream) ==
                ncclSuccess;
    w->ok = w->ok && cu.sync(stream) == CUDA_SUCCESS &&
            cu.to_host(w->got, m, sizeof mine) == CUDA_SUCCESS &&
            fn.destroy(comm) == ncclSuccess && cu.release(m) == CUDA_SUCCESS &&
            cu.stream_free(stream) == CUDA_SUCCESS;
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    ncclUniqueId id;
    struct worker w[RANKS];
    pthread_t threads[RANKS];
    assert_int_equal(fn.unique_id(&id), ncclSuccess);
    for (int r = 0; r < RANKS; r++) {
        w[r] = (struct worker){ .id = id, .rank = r };
        assert_int_equal(pthread_create(&threads[r], NULL, work, &w[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < RANKS; r++) {
        assert_true(w[r].ok);
        for (size_t i = 0; i < 4; i++)
            assert_true((double)w[r].got[i] == RANKS * reduced(ncclSum, i));
    }
}

/* A rank that never comes: abort lets the others go. */
static void test_abort(void **state)
{
    (void)state;
    ncclComm_t two[2];
    int devices[2] = { 0, 1 };
    assert_int_equal(fn.init_all(two, 2, devices), ncclSuccess);
    use(0);
    char *m = client_buffer(NULL, 256);
    assert_int_equal(fn.all_reduce(m, m, 4, ncclFloat32, ncclSum, two[0],
                                   streams[0]),
                     ncclSuccess);
    assert_int_equal(fn.abort_comm(two[1]), ncclSuccess);
    assert_int_equal(cu.sync(streams[0]), CUDA_SUCCESS);
    assert_int_equal(fn.abort_comm(two[0]), ncclSuccess);
    assert_int_equal(fn.abort_comm(two[0]), ncclInvalidArgument);
    client_release(m);
}

/* --- violations */

static void pair(size_t count_a, size_t count_b, bool group)
{
    char *m[2];
    open_all();
    for (int r = 0; r < 2; r++) {
        use(r);
        m[r] = client_buffer(NULL, 256);
    }
    if (group)
        (void)fn.start();
    (void)fn.all_reduce(m[0], m[0], count_a, ncclFloat32, ncclSum, comms[0],
                        streams[0]);
    (void)fn.all_reduce(m[1], m[1], count_b, ncclFloat32, ncclSum, comms[1],
                        streams[1]);
    if (group)
        (void)fn.end();
    (void)cu.sync(streams[1]);
    (void)cu.sync(streams[0]);
}

static void report_counts(void)
{
    pair(4, 5, true);
}

static void report_alone(void)
{
    pair(4, 4, false);
}

static void report_order(void)
{
    char *m[2];
    open_all();
    for (int r = 0; r < 2; r++) {
        use(r);
        m[r] = client_buffer(NULL, 256);
    }
    (void)fn.start();
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < 2; r++)
            (void)(i == r ? fn.all_reduce(m[r], m[r], 4, ncclFloat32, ncclSum,
                                          comms[r], streams[r])
                          : fn.broadcast(m[r], m[r], 4, ncclFloat32, 0,
                                         comms[r], streams[r]));
    (void)fn.end();
    (void)cu.sync(streams[0]);
}

static void report_overlap(void)
{
    open_all();
    use(0);
    char *m = client_buffer(NULL, 256);
    (void)fn.all_reduce(m, m + 8, 4, ncclFloat32, ncclSum, comms[0],
                        streams[0]);
}

static void report_pending(void)
{
    open_all();
    use(0);
    char *m = client_buffer(NULL, 256);
    (void)fn.all_reduce(m, m, 4, ncclFloat32, ncclSum, comms[0], streams[0]);
    (void)fn.destroy(comms[0]);
}

static const struct client_report reports[] = {
    { "counts", "all-reduce of", report_counts },
    { "order", "broadcast of", report_order },
    { "alone", "outside of a group", report_alone },
    { "overlap", "input and output overlap", report_overlap },
    { "pending", "did not end", report_pending },
};

static void test_reports(void **state)
{
    (void)state;
    client_reports_test(reports, sizeof reports / sizeof reports[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_collectives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_queries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_capture, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_abort, setup, teardown),
        cmocka_unit_test(test_reports),
    };
    client_start("3");
    void *library = client_open("libnccl.so.2");
    FUNCTIONS(CLIENT_BIND)
    client_reports_enter(argc, argv, reports,
                         sizeof reports / sizeof reports[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
