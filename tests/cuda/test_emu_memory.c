/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, failures and names of the emulated driver, as cuda.h describes
 * them. */
#include "tests/cuda/emu/test.h"

/* --- memory */

static void test_copies(void **state)
{
    (void)state;
    char plain[300], *pinned = pinned_bytes(300);
    void *a = device_bytes(300), *b = device_bytes(300);
    CUstream s = stream();
    for (int i = 0; i < 300; i++)
        plain[i] = (char)(i * 7);
    OK(cuMemcpyHtoDAsync((CUdeviceptr)a, plain, 300, s));
    memset(plain, 0, sizeof plain); /* pageable: was copied before return */
    OK(cuMemcpyDtoDAsync((CUdeviceptr)b, (CUdeviceptr)a, 300, s));
    OK(cuMemcpyDtoHAsync(pinned, (CUdeviceptr)b, 300, s));
    OK(cuStreamSynchronize(s));
    for (int i = 0; i < 300; i++)
        assert_int_equal(pinned[i], (char)(i * 7));
    OK(cuMemcpyDtoH(plain, (CUdeviceptr)b, 300));
    assert_memory_equal(plain, pinned, 300);
    OK(cuMemsetD32Async((CUdeviceptr)a, 0x01020304, 75, s));
    OK(cuMemcpyDtoHAsync(plain, (CUdeviceptr)a, 300, s));
    assert_int_equal(plain[297], 3); /* waited: not pinned */
    static const struct {
        ptrdiff_t from;
        size_t bytes;
    } bad[] = { { 0, 301 }, { -1, 2 }, { 300, 1 }, { 0, SIZE_MAX } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            cuMemcpyDtoHAsync(plain,
                              (CUdeviceptr)((char *)a + bad[i].from),
                              bad[i].bytes, s),
            CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoHAsync(plain, (CUdeviceptr)plain, 4, s),
                     CUDA_ERROR_INVALID_VALUE);
    assert_true(qn_emu_device_range(a, 300));
    assert_false(qn_emu_device_range(a, 301));
    assert_false(qn_emu_device_range(plain, 1));
    device_free(a);
    assert_false(qn_emu_device_range(a, 1));
    assert_int_equal(cuMemFree((CUdeviceptr)a), CUDA_ERROR_INVALID_VALUE);
    device_free(b);
    OK(cuStreamDestroy(s));
    OK(cuMemFreeHost(pinned));
}

/* What nobody has written is NaN. */
static void test_fresh_memory(void **state)
{
    (void)state;
    unsigned out[4];
    void *a = device_bytes(sizeof out);
    OK(cuMemcpyDtoH(out, (CUdeviceptr)a, sizeof out));
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i], 0xffffffffu);
    device_free(a);
}

static void test_register(void **state)
{
    (void)state;
    static char host[8192];
    OK(cuMemHostRegister(host, 4096, 0));
    assert_int_equal(cuMemHostRegister(host + 4000, 200, 0),
                     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_true(qn_emu_device_range(host, 4096));
    assert_int_equal(cuMemHostUnregister(host + 1),
                     CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemHostUnregister(host));
}

static void test_virtual(void **state)
{
    (void)state;
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = { .location = prop.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle one, two;
    CUdeviceptr at;
    size_t page;
    unsigned word = 7;
    uint64_t before = qn_emu_bytes_in_use(0);
    OK(cuMemGetAllocationGranularity(&page, &prop,
                                     CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&at, 8 * page, 0, 0, 0));
    OK(cuMemCreate(&one, page, &prop, 0));
    OK(cuMemCreate(&two, 2 * page, &prop, 0));
    assert_int_equal(qn_emu_bytes_in_use(0) - before, 3 * page);
    assert_int_equal(cuMemCreate(&one, page + 1, &prop, 0),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(at, page, 0, one, 0));
    OK(cuMemMap(at + page, 2 * page, 0, two, 0));
    assert_int_equal(cuMemMap(at, page, 0, one, 0), CUDA_ERROR_INVALID_VALUE);
    assert_false(qn_emu_device_range((void *)at, 1)); /* no access yet */
    OK(cuMemSetAccess(at, 3 * page, &access, 1));
    assert_true(qn_emu_device_range((void *)at, 3 * page));
    assert_false(qn_emu_device_range((void *)at, 3 * page + 1));
    /* across two mappings; then the memory of one somewhere else */
    OK(cuMemsetD32(at + page - 64, 5, 64));
    assert_int_equal(cuMemUnmap(at, page / 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(at, 3 * page));
    assert_int_equal(cuMemsetD32(at, 5, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(at + 4 * page, page, 0, one, 0));
    OK(cuMemSetAccess(at + 4 * page, page, &access, 1));
    OK(cuMemcpyDtoH(&word, at + 5 * page - 4, 4));
    assert_int_equal(word, 5);
    OK(cuMemcpyDtoH(&word, at + 4 * page, 4));
    assert_int_equal(word, 0xffffffffu);
    OK(cuMemRelease(one)); /* mapped: still there */
    OK(cuMemRelease(two));
    assert_int_equal(qn_emu_bytes_in_use(0) - before, page);
    assert_int_equal(cuMemAddressFree(at, 8 * page), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(at + 4 * page, page));
    OK(cuMemAddressFree(at, 8 * page));
    assert_int_equal(qn_emu_bytes_in_use(0), before);
}

static void test_pool(void **state)
{
    (void)state;
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED };
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool;
    CUdeviceptr p;
    CUstream s = stream();
    cuuint64_t all = UINT64_MAX, used;
    uint64_t before = qn_emu_bytes_in_use(0);
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemAllocFromPoolAsync(&p, 1000, pool, s));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 1000);
    OK(cuMemsetD8Async(p, 1, 1000, s));
    OK(cuMemFreeAsync(p, s));
    assert_int_equal(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8Async(p, 1, 1, s), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(s));
    assert_int_equal(qn_emu_bytes_in_use(0), before);
    OK(cuMemPoolDestroy(pool));
    OK(cuStreamDestroy(s));
}

static void test_out_of_memory(void **state)
{
    (void)state;
    size_t total;
    CUdeviceptr p;
    OK(cuMemGetInfo(NULL, &total));
    qn_emu_set_memory(0, qn_emu_bytes_in_use(0) + 1024);
    assert_int_equal(cuMemAlloc(&p, 1025), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p, 1024));
    OK(cuMemFree(p));
    qn_emu_set_memory(0, total);
}

static void test_peers(void **state)
{
    (void)state;
    CUcontext other;
    CUdeviceptr far, near = (CUdeviceptr)device_bytes(64);
    unsigned word;
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxPushCurrent(other));
    OK(cuMemAlloc(&far, 64));
    OK(cuMemsetD32(far, 99, 16));
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxEnablePeerAccess(other, 0));
    assert_int_equal(cuCtxEnablePeerAccess(other, 0),
                     CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cuMemcpyPeerAsync(near, context, far, other, 64, NULL));
    OK(cuMemcpyDtoH(&word, near, 4));
    assert_int_equal(word, 99);
    assert_int_equal(cuMemcpyPeerAsync(near, other, far, context, 64, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(far));
    OK(cuMemFree(near));
    OK(cuDevicePrimaryCtxRelease(1));
}

/* --- failures */

static void test_injection(void **state)
{
    (void)state;
    CUdeviceptr p;
    qn_emu_reset_counts();
    qn_emu_fail_at("cuMemAlloc", 3, CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 1; i <= 5; i++) {
        CUresult r = cuMemAlloc(&p, 64);
        assert_int_equal(r, i == 3 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        if (r == CUDA_SUCCESS)
            OK(cuMemFree(p));
    }
    assert_int_equal(qn_emu_count("cuMemAlloc"), 5);
    assert_int_equal(qn_emu_fail("cublasLtMatmul"), 0);
    qn_emu_fail_at("cublasLtMatmul", 1, 14);
    assert_int_equal(qn_emu_fail("cublasLtMatmul"), 14);
    assert_int_equal(qn_emu_fail("cublasLtMatmul"), 0);
}

static void test_sticky(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(32);
    CUstream s = stream(), t = stream();
    CUevent e = event();
    CUfunction f = function("tk_step");
    memset(out, 0, 32);
    qn_emu_fail_at("cuLaunchKernel", 2, CUDA_ERROR_ILLEGAL_ADDRESS);
    steps(s, out, 1);
    steps(s, out, 2); /* succeeds: the kernel is what fails */
    CUresult r = cuStreamSynchronize(s);
    assert_int_equal(r, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(out[0], 1);
    /* whatever the call and the stream */
    CUdeviceptr p;
    struct tk_args a = { .out = out, .n = 8 };
    void *params[] = { &a };
    assert_int_equal(cuMemAlloc(&p, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuEventRecord(e, t), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(
        cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, t, params, NULL),
        CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(qn_emu_dead(0));
    assert_false(qn_emu_dead(1)); /* the other device lives */
    qn_emu_revive();
    OK(cuStreamSynchronize(t));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(s));
    OK(cuStreamDestroy(t));
    OK(cuMemFreeHost(out));
}

/* --- names */

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int version;
        void *want;
    } rows[] = {
        { "cuMemAlloc", 13000, NULL },
        { "cuMemAlloc", 3020, NULL },
        { "cuGraphInstantiate", 13000, NULL },
        { "cuStreamDestroy", 13000, NULL },
        { "cuLaunchKernel", 4000, NULL },
    };
    void *want[sizeof rows / sizeof rows[0]];
    CUresult (*alloc)(CUdeviceptr *, size_t) = cuMemAlloc;
    CUresult (*graph)(CUgraphExec *, CUgraph, unsigned long long) =
        cuGraphInstantiate;
    CUresult (*destroy)(CUstream) = cuStreamDestroy;
    __typeof__(&cuLaunchKernel) start = cuLaunchKernel;
    memcpy(&want[0], &alloc, sizeof alloc);
    memcpy(&want[1], &alloc, sizeof alloc);
    memcpy(&want[2], &graph, sizeof graph);
    memcpy(&want[3], &destroy, sizeof destroy);
    memcpy(&want[4], &start, sizeof start);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *p = NULL;
        CUdriverProcAddressQueryResult how;
        OK(cuGetProcAddress(rows[i].name, &p, rows[i].version, 0, &how));
        assert_int_equal(how, CU_GET_PROC_ADDRESS_SUCCESS);
        assert_ptr_equal(p, want[i]);
    }
    void *p;
    assert_int_equal(cuGetProcAddress("cuNothing", &p, 13000, 0, NULL),
                     CUDA_ERROR_NOT_FOUND);
    const char *name;
    OK(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, &name));
    assert_string_equal(name, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_fresh_memory),
        cmocka_unit_test(test_register),
        cmocka_unit_test(test_virtual),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_injection),
        cmocka_unit_test(test_sticky),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, open_driver, NULL);
}
