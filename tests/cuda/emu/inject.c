/* SPDX-License-Identifier: Apache-2.0 */
/* Counters by name, injected failures, and the end of the process. */
#include "tests/cuda/emu/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BUCKETS = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct counter *buckets[BUCKETS];

struct injection {
    char *api;
    uint64_t left; /* calls until it happens */
    int code;
    struct injection *next;
};
static struct injection *injections;
static int n_injections; /* atomic: most calls only look here */

static unsigned bucket_of(const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h % BUCKETS;
}

static struct counter *find_locked(const char *name)
{
    struct counter *c = buckets[bucket_of(name)];
    while (c && strcmp(c->name, name))
        c = c->next;
    return c;
}

static void list_locked(struct counter *c)
{
    struct counter **at = &buckets[bucket_of(c->name)];
    c->next = *at;
    *at = c;
    __atomic_store_n(&c->listed, true, __ATOMIC_RELEASE);
}

struct counter *counter_find(const char *name)
{
    pthread_mutex_lock(&lock);
    struct counter *c = find_locked(name);
    if (!c) {
        c = calloc(1, sizeof *c);
        char *copy = strdup(name);
        if (!c || !copy)
            qn_emu_report("no memory for a counter");
        c->name = copy;
        list_locked(c);
    }
    pthread_mutex_unlock(&lock);
    return c;
}

/* The entry of one function of the API. Two counters may carry one name. */
static void count_call(struct counter *api)
{
    if (!__atomic_load_n(&api->listed, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&lock);
        if (!api->listed)
            list_locked(api);
        pthread_mutex_unlock(&lock);
    }
    __atomic_add_fetch(&api->count, 1, __ATOMIC_RELAXED);
}

void counter_add(struct counter *c)
{
    count_call(c);
}

static int take_injection(const char *api)
{
    int code = 0;
    if (__atomic_load_n(&n_injections, __ATOMIC_ACQUIRE) == 0)
        return 0;
    pthread_mutex_lock(&lock);
    for (struct injection **at = &injections; *at;) {
        struct injection *i = *at;
        if (!strcmp(i->api, api) && --i->left == 0) {
            code = i->code;
            *at = i->next;
            free(i->api);
            free(i);
            __atomic_sub_fetch(&n_injections, 1, __ATOMIC_RELEASE);
            break;
        }
        at = &i->next;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

bool poisons(int code)
{
    switch (code) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

CUresult injected(struct counter *api)
{
    count_call(api);
    return (CUresult)take_injection(api->name);
}

CUresult enter(struct counter *api, int what)
{
    CUresult code = injected(api);
    if (what != ANY && n_devices == 0)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUcontext context = current_context();
    if (code != CUDA_SUCCESS) {
        if (context && poisons((int)code))
            poison(context, code);
        return code;
    }
    if ((what & CONTEXT) == CONTEXT) {
        if (!context)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (sticky_of(context) != CUDA_SUCCESS)
            return sticky_of(context);
    }
    return what & UNSAFE ? capture_unsafe() : CUDA_SUCCESS;
}

int qn_emu_fail(const char *api)
{
    __atomic_add_fetch(&counter_find(api)->count, 1, __ATOMIC_RELAXED);
    return take_injection(api);
}

void qn_emu_fail_at(const char *api, uint64_t nth, int code)
{
    struct injection *i = calloc(1, sizeof *i);
    char *copy = strdup(api);
    if (!i || !copy || nth == 0 || code == 0)
        qn_emu_report("cannot inject failure %d into call %llu of %s", code,
                      (unsigned long long)nth, api);
    i->api = copy;
    i->left = nth;
    i->code = code;
    pthread_mutex_lock(&lock);
    i->next = injections;
    injections = i;
    __atomic_add_fetch(&n_injections, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

void qn_emu_fail_none(void)
{
    pthread_mutex_lock(&lock);
    while (injections) {
        struct injection *i = injections;
        injections = i->next;
        free(i->api);
        free(i);
    }
    __atomic_store_n(&n_injections, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

/* "cuLaunchKernel:17:700,cuMemCreate:3:2" */
__attribute__((constructor)) static void from_environment(void)
{
    const char *text = getenv("QN_EMU_FAIL");
    while (text && *text) {
        char api[64];
        unsigned long long nth;
        int code, n = 0;
        if (sscanf(text, "%63[^:]:%llu:%d%n", api, &nth, &code, &n) != 3)
            qn_emu_report("QN_EMU_FAIL: not NAME:NTH:CODE,...: '%s'", text);
        qn_emu_fail_at(api, nth, code);
        text += n;
        text += *text == ',';
    }
}

/* --- counts for tests; kernels count in their own record */

uint64_t qn_emu_count(const char *what)
{
    uint64_t n = 0;
    pthread_mutex_lock(&lock);
    for (struct counter *c = buckets[bucket_of(what)]; c; c = c->next)
        if (!strcmp(c->name, what))
            n += __atomic_load_n(&c->count, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    qn_simt_kernel *k = qn_simt_find(what);
    return n + (k ? __atomic_load_n(&k->launches, __ATOMIC_RELAXED) : 0);
}

void qn_emu_reset_counts(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct counter *c = buckets[i]; c; c = c->next)
            __atomic_store_n(&c->count, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    for (qn_simt_kernel *k = qn_simt_first(); k; k = k->next)
        __atomic_store_n(&k->launches, 0, __ATOMIC_RELAXED);
}

static void report_count(const char *name, const uint64_t *count,
                         void (*fn)(void *, const char *, uint64_t), void *arg)
{
    uint64_t n = __atomic_load_n(count, __ATOMIC_RELAXED);
    if (n)
        fn(arg, name, n);
}

void qn_emu_each_count(void (*fn)(void *arg, const char *what, uint64_t count),
                       void *arg)
{
    for (qn_simt_kernel *k = qn_simt_first(); k; k = k->next)
        report_count(k->name, &k->launches, fn, arg);
    for (int i = 0; i < BUCKETS; i++) {
        pthread_mutex_lock(&lock);
        struct counter *c = buckets[i];
        pthread_mutex_unlock(&lock);
        for (; c; c = c->next) /* entries never go away */
            report_count(c->name, &c->count, fn, arg);
    }
}

void qn_emu_report(const char *fmt, ...)
{
    char text[4096];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    fflush(stdout);
    fprintf(stderr, "emulated CUDA: %s\n", text);
    fflush(stderr);
    abort();
}
