/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: exact refusals, the queue, and seeded random sequences against the
 * invariants: what is mapped is what is charged, never more than the budget,
 * nobody waits who fits, and nothing is left at the end.
 */
#include "runtime/memory/pool.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a source that counts, checks and fails on demand ---- */

struct source {
    atomic_size_t mapped;
    atomic_size_t limit;   /* mapped may not exceed it */
    atomic_size_t over;    /* times it did */
    atomic_size_t maps;    /* calls */
    atomic_int fail_calls; /* that many calls fail */
};

static void *source_map(void *arg, size_t bytes)
{
    struct source *s = arg;
    atomic_fetch_add(&s->maps, 1);
    if (atomic_load(&s->fail_calls) > 0) {
        atomic_fetch_sub(&s->fail_calls, 1);
        return NULL;
    }
    size_t now = atomic_fetch_add(&s->mapped, bytes) + bytes;
    if (now > atomic_load(&s->limit))
        atomic_fetch_add(&s->over, 1);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void source_unmap(void *arg, void *data, size_t bytes)
{
    struct source *s = arg;
    munmap(data, bytes);
    atomic_fetch_sub(&s->mapped, bytes);
}

struct fixture {
    qn_ledger *ledger;
    qn_pool *pool;
    struct source source;
    qn_pool_source hooks;
    size_t page;
};

static void open_fixture(struct fixture *f, size_t pages, size_t max_waiters)
{
    qn_error err = { 0 };
    memset(f, 0, sizeof *f);
    f->page = (size_t)sysconf(_SC_PAGESIZE);
    f->hooks = (qn_pool_source){ source_map, source_unmap, &f->source,
                                 false };
    atomic_store(&f->source.limit, pages * f->page);
    qn_pool_options options = { .max_waiters = max_waiters,
                                .source = &f->hooks };
    assert_int_equal(qn_ledger_new(pages * f->page, &f->ledger, &err), QN_OK);
    assert_int_equal(qn_pool_new(f->ledger, &options, &f->pool, &err), QN_OK);
}

static void close_fixture(struct fixture *f)
{
    qn_ledger_state s;
    qn_pool_state p;
    qn_pool_read(f->pool, &p);
    assert_int_equal(p.leased, 0);
    assert_int_equal(p.leases, 0);
    assert_int_equal(p.waiters, 0);
    qn_pool_free(f->pool);
    qn_ledger_read(f->ledger, &s);
    assert_int_equal(s.charged, 0);
    assert_int_equal(atomic_load(&f->source.mapped), 0);
    assert_int_equal(atomic_load(&f->source.over), 0);
    qn_ledger_free(f->ledger);
}

static qn_lease arena(size_t bytes)
{
    return (qn_lease){ .parts = { { .cls = QN_MEM_ARENA, .bytes = bytes } } };
}

/* ---- leases ---- */

static void test_lease_parts(void **state)
{
    (void)state;
    struct fixture f;
    qn_error err = { 0 };
    qn_ledger_state s;
    open_fixture(&f, 100, 0);
    qn_lease lease = { .parts = { { .cls = QN_MEM_ARENA, .bytes = 10000 },
                                  { .cls = QN_MEM_INPUT, .bytes = 1 },
                                  { .cls = QN_MEM_OUTPUT, .bytes = 0 },
                                  { .cls = QN_MEM_SIDE, .bytes = 4096 } } };
    assert_int_equal(qn_pool_lease(f.pool, &lease, &err), QN_OK);
    size_t page = f.page;
    assert_int_equal(lease.parts[0].charged, (10000 + page - 1) / page * page);
    assert_int_equal(lease.parts[1].charged, page);
    assert_null(lease.parts[2].data);
    assert_int_equal(lease.parts[2].charged, 0);
    for (int i = 0; i < QN_LEASE_PARTS; i++)
        if (lease.parts[i].data)
            memset(lease.parts[i].data, 0x5a, lease.parts[i].charged);
    qn_ledger_read(f.ledger, &s);
    assert_int_equal(s.by_class[QN_MEM_ARENA], lease.parts[0].charged);
    assert_int_equal(s.by_class[QN_MEM_INPUT], page);
    assert_int_equal(s.by_class[QN_MEM_OUTPUT], 0);
    qn_pool_release_part(f.pool, &lease, 0);
    assert_null(lease.parts[0].data);
    qn_pool_release_part(f.pool, &lease, 0);
    qn_ledger_read(f.ledger, &s);
    assert_int_equal(s.by_class[QN_MEM_ARENA], 0);
    assert_true(s.by_class[QN_MEM_CACHE] > 0);
    qn_pool_release(f.pool, &lease);
    qn_pool_release(f.pool, &lease);
    close_fixture(&f);
}

static void test_reuse(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t kept, wanted; /* pages */
        bool reused;
    } rows[] = {
        { "same", 40, 40, true },
        { "64 KiB more", 40, 24, true },
        { "more than that", 40, 23, false },
        { "an eighth more", 900, 800, true },
        { "more than an eighth", 902, 801, false },
        { "smaller", 40, 41, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        open_fixture(&f, 2000, 0);
        if (f.page != 4096)
            skip(); /* the rows count in pages of 4 KiB */
        qn_lease a = arena(rows[i].kept * f.page);
        qn_lease b = arena(rows[i].wanted * f.page);
        assert_int_equal(qn_pool_lease(f.pool, &a, NULL), QN_OK);
        void *data = a.parts[0].data;
        qn_pool_release(f.pool, &a);
        assert_int_equal(qn_pool_lease(f.pool, &b, NULL), QN_OK);
        size_t charged = rows[i].reused ? rows[i].kept : rows[i].wanted;
        if ((b.parts[0].data == data) != rows[i].reused ||
            b.parts[0].charged != charged * f.page)
            fail_msg("%s: charged %zu", rows[i].name, b.parts[0].charged);
        qn_pool_release(f.pool, &b);
        close_fixture(&f);
    }
}

/* Budget, less what else is charged, less leases: all of it can be leased, in
 * whatever sizes the cache holds. */
static void test_no_fragmentation(void **state)
{
    (void)state;
    struct fixture f;
    qn_lease small[100], big;
    open_fixture(&f, 100, 0);
    for (size_t i = 0; i < 100; i++) {
        small[i] = arena(f.page);
        assert_int_equal(qn_pool_lease(f.pool, &small[i], NULL), QN_OK);
    }
    for (size_t i = 0; i < 100; i += 2)
        qn_pool_release(f.pool, &small[i]);
    big = arena(50 * f.page);
    assert_int_equal(qn_pool_lease(f.pool, &big, NULL), QN_OK);
    qn_pool_release(f.pool, &big);
    /* a cached range that is too long is cut, not refused */
    qn_lease two = arena(49 * f.page);
    two.parts[1] = (qn_lease_part){ .cls = QN_MEM_SIDE, .bytes = f.page };
    assert_int_equal(qn_pool_lease(f.pool, &two, NULL), QN_OK);
    assert_int_equal(two.parts[0].charged, 49 * f.page);
    qn_pool_release(f.pool, &two);
    /* other charges make the pool give up pages, in any number of bytes */
    assert_int_equal(qn_ledger_charge(f.ledger, QN_MEM_BODY, 5, NULL), QN_OK);
    qn_lease rest = arena(49 * f.page);
    assert_int_equal(qn_pool_lease(f.pool, &rest, NULL), QN_OK);
    qn_ledger_give_back(f.ledger, QN_MEM_BODY, 5);
    qn_pool_release(f.pool, &rest);
    for (size_t i = 1; i < 100; i += 2)
        qn_pool_release(f.pool, &small[i]);
    close_fixture(&f);
}

static void test_refusals(void **state)
{
    (void)state;
    struct fixture f;
    qn_error err = { 0 };
    open_fixture(&f, 10, 0);
    assert_int_equal(
        qn_ledger_charge(f.ledger, QN_MEM_STATIC, 2 * f.page, NULL), QN_OK);
    qn_lease a = arena(8 * f.page + 1), b = arena(8 * f.page), c = arena(1);
    qn_lease d = arena(SIZE_MAX);
    assert_int_equal(qn_pool_lease(f.pool, &a, &err), QN_TOO_LARGE);
    char want[64];
    snprintf(want, sizeof want, "%zu bytes can never fit", 9 * f.page);
    assert_non_null(strstr(err.text, want));
    assert_int_equal(qn_pool_lease(f.pool, &d, &err), QN_TOO_LARGE);
    assert_int_equal(qn_pool_lease(f.pool, &b, &err), QN_OK);
    assert_int_equal(qn_pool_lease(f.pool, &c, &err), QN_NO_MEMORY);
    assert_non_null(strstr(err.text, "does not fit now"));
    assert_null(c.parts[0].data);
    qn_pool_release(f.pool, &b);
    assert_int_equal(qn_pool_lease(f.pool, &c, &err), QN_OK);
    qn_pool_release(f.pool, &c);
    qn_ledger_give_back(f.ledger, QN_MEM_STATIC, 2 * f.page);
    close_fixture(&f);
}

static void test_map_failure(void **state)
{
    (void)state;
    struct fixture f;
    qn_error err = { 0 };
    qn_ledger_state s;
    open_fixture(&f, 100, 0);
    qn_lease warm = arena(40 * f.page);
    assert_int_equal(qn_pool_lease(f.pool, &warm, NULL), QN_OK);
    qn_pool_release(f.pool, &warm);
    /* part 0 comes from the cache, part 1 is new and fails */
    qn_lease lease = arena(40 * f.page);
    lease.parts[1] = (qn_lease_part){ .cls = QN_MEM_SIDE, .bytes = 7 };
    atomic_store(&f.source.fail_calls, 2);
    assert_int_equal(qn_pool_lease(f.pool, &lease, &err), QN_DEVICE);
    assert_non_null(strstr(err.text, "would not map"));
    assert_null(lease.parts[0].data);
    atomic_store(&f.source.fail_calls, 0);
    qn_ledger_read(f.ledger, &s);
    qn_pool_state p;
    qn_pool_read(f.pool, &p);
    assert_int_equal(s.charged, p.cached);
    assert_int_equal(atomic_load(&f.source.mapped), p.cached);
    assert_int_equal(p.leased, 0);
    assert_int_equal(qn_pool_lease(f.pool, &lease, &err), QN_OK);
    qn_pool_release(f.pool, &lease);
    /* one failure while something is cached: given up, tried again */
    qn_lease other = arena(10 * f.page);
    atomic_store(&f.source.fail_calls, 1);
    assert_int_equal(qn_pool_lease(f.pool, &other, &err), QN_OK);
    qn_pool_release(f.pool, &other);
    close_fixture(&f);
}

static void test_trim(void **state)
{
    (void)state;
    struct fixture f;
    qn_pool_state p;
    open_fixture(&f, 100, 0);
    qn_lease a = arena(60 * f.page), b = arena(20 * f.page);
    assert_int_equal(qn_pool_lease(f.pool, &a, NULL), QN_OK);
    assert_int_equal(qn_pool_lease(f.pool, &b, NULL), QN_OK);
    void *newest = b.parts[0].data;
    qn_pool_release(f.pool, &a);
    qn_pool_release(f.pool, &b);
    assert_int_equal(qn_pool_trim(f.pool, 20 * f.page), 60 * f.page);
    qn_pool_read(f.pool, &p);
    assert_int_equal(p.cached, 20 * f.page);
    assert_int_equal(qn_pool_lease(f.pool, &b, NULL), QN_OK);
    assert_ptr_equal(b.parts[0].data, newest); /* the oldest went */
    qn_pool_release(f.pool, &b);
    assert_int_equal(qn_pool_trim(f.pool, 0), 20 * f.page);
    assert_int_equal(qn_pool_trim(f.pool, 0), 0);
    close_fixture(&f);
}

/* The default source, with and without huge pages. */
static void test_mappings(void **state)
{
    (void)state;
    for (int huge = 0; huge < 2; huge++) {
        qn_ledger *ledger;
        qn_pool *pool;
        qn_pool_options options = { .huge_pages = huge };
        assert_int_equal(qn_ledger_new((size_t)64 << 20, &ledger, NULL), QN_OK);
        assert_int_equal(qn_pool_new(ledger, &options, &pool, NULL), QN_OK);
        qn_lease lease = arena(((size_t)5 << 20) + 1);
        assert_int_equal(qn_pool_lease(pool, &lease, NULL), QN_OK);
        if (huge)
            assert_int_equal((uintptr_t)lease.parts[0].data % (2U << 20), 0);
        memset(lease.parts[0].data, 1, lease.parts[0].charged);
        qn_pool_release(pool, &lease);
        qn_pool_free(pool);
        qn_ledger_free(ledger);
    }
}

/* ---- the queue ---- */

struct entry {
    qn_waiter waiter;
    qn_lease lease;
    qn_status status;
    int order; /* of the grant; 0: not yet */
    int *clock;
};

static void on_grant(qn_waiter *waiter, qn_status status)
{
    struct entry *e = waiter->arg;
    e->status = status;
    e->order = ++*e->clock;
}

static void entry_init(struct entry *e, size_t bytes, int *clock)
{
    memset(e, 0, sizeof *e);
    e->lease = arena(bytes);
    e->waiter = (qn_waiter){ .lease = &e->lease, .granted = on_grant,
                             .arg = e };
    e->clock = clock;
}

static void test_fifo_and_bypass(void **state)
{
    (void)state;
    struct fixture f;
    int clock = 0;
    struct entry big, small, more[QN_POOL_MAX_BYPASS + 1];
    open_fixture(&f, 10, 0);
    qn_lease hold = arena(5 * f.page), hold2 = arena(3 * f.page);
    assert_int_equal(qn_pool_lease(f.pool, &hold, NULL), QN_OK);
    assert_int_equal(qn_pool_lease(f.pool, &hold2, NULL), QN_OK);
    entry_init(&big, 8 * f.page, &clock);
    entry_init(&small, 3 * f.page, &clock);
    assert_int_equal(qn_pool_wait(f.pool, &big.waiter, NULL), QN_NO_MEMORY);
    assert_int_equal(qn_pool_wait(f.pool, &small.waiter, NULL), QN_NO_MEMORY);
    qn_pool_release(f.pool, &hold2); /* 5 are free: small passes big */
    assert_int_equal(small.order, 1);
    assert_int_equal(big.order, 0);
    qn_pool_release(f.pool, &small.lease);
    /* newcomers may pass too, but only so often in all */
    int passed = 1;
    for (int i = 0; i <= QN_POOL_MAX_BYPASS; i++) {
        entry_init(&more[i], f.page, &clock);
        qn_status st = qn_pool_wait(f.pool, &more[i].waiter, NULL);
        passed += st == QN_OK;
        if (st == QN_OK)
            qn_pool_release(f.pool, &more[i].lease);
    }
    assert_int_equal(passed, QN_POOL_MAX_BYPASS);
    qn_lease late = arena(1);
    assert_int_equal(qn_pool_lease(f.pool, &late, NULL), QN_NO_MEMORY);
    qn_pool_release(f.pool, &hold); /* now big, then those behind it */
    assert_int_equal(big.order, 2);
    assert_int_equal(more[QN_POOL_MAX_BYPASS - 1].order, 3);
    assert_int_equal(more[QN_POOL_MAX_BYPASS].order, 4);
    qn_pool_release(f.pool, &big.lease);
    qn_pool_release(f.pool, &more[QN_POOL_MAX_BYPASS - 1].lease);
    qn_pool_release(f.pool, &more[QN_POOL_MAX_BYPASS].lease);
    close_fixture(&f);
}

static void test_wait_ends(void **state)
{
    (void)state;
    struct fixture f;
    int clock = 0;
    qn_error err = { 0 };
    struct entry a, b, c;
    open_fixture(&f, 10, 2);
    qn_lease hold = arena(10 * f.page);
    assert_int_equal(qn_pool_lease(f.pool, &hold, NULL), QN_OK);
    entry_init(&a, 10 * f.page, &clock);
    entry_init(&b, f.page, &clock);
    entry_init(&c, f.page, &clock);
    assert_int_equal(qn_pool_wait(f.pool, &a.waiter, NULL), QN_NO_MEMORY);
    assert_int_equal(qn_pool_wait(f.pool, &b.waiter, NULL), QN_NO_MEMORY);
    assert_int_equal(qn_pool_wait(f.pool, &c.waiter, &err), QN_BUSY);
    assert_non_null(strstr(err.text, "2 leases wait"));
    assert_false(qn_pool_cancel(f.pool, &c.waiter));
    assert_true(qn_pool_cancel(f.pool, &b.waiter));
    assert_false(qn_pool_cancel(f.pool, &b.waiter));
    assert_int_equal(qn_pool_wait(f.pool, &c.waiter, &err), QN_NO_MEMORY);
    /* a model is loaded: what waits at the head can never fit any more */
    qn_pool_release(f.pool, &hold);
    assert_int_equal(a.order, 1);
    assert_int_equal(a.status, QN_OK);
    entry_init(&b, 10 * f.page, &clock);
    assert_int_equal(qn_pool_wait(f.pool, &b.waiter, &err), QN_NO_MEMORY);
    qn_pool_release_part(f.pool, &a.lease, 0);
    assert_int_equal(c.order, 2);
    qn_pool_release(f.pool, &c.lease);
    assert_int_equal(b.order, 3);
    qn_pool_release(f.pool, &b.lease);

    assert_int_equal(qn_ledger_charge(f.ledger, QN_MEM_BODY, 1, NULL), QN_OK);
    entry_init(&b, 10 * f.page, &clock);
    assert_int_equal(qn_pool_wait(f.pool, &b.waiter, &err), QN_NO_MEMORY);
    assert_int_equal(qn_ledger_charge(f.ledger, QN_MEM_STATIC, 1, NULL), QN_OK);
    entry_init(&c, 9 * f.page, &clock);
    assert_int_equal(qn_pool_wait(f.pool, &c.waiter, &err), QN_OK);
    qn_pool_release(f.pool, &c.lease);
    assert_int_equal(b.order, 4);
    assert_int_equal(b.status, QN_TOO_LARGE);
    qn_ledger_give_back(f.ledger, QN_MEM_BODY, 1);
    qn_ledger_give_back(f.ledger, QN_MEM_STATIC, 1);
    close_fixture(&f);
}

/* Bytes that others give back to the ledger wake waiters too. */
static void test_ledger_wakes(void **state)
{
    (void)state;
    struct fixture f;
    int clock = 0;
    struct entry a;
    open_fixture(&f, 10, 0);
    assert_int_equal(qn_ledger_charge(f.ledger, QN_MEM_BODY, f.page, NULL),
                     QN_OK);
    entry_init(&a, 10 * f.page, &clock);
    assert_int_equal(qn_pool_wait(f.pool, &a.waiter, NULL), QN_NO_MEMORY);
    qn_ledger_give_back(f.ledger, QN_MEM_BODY, f.page - 1);
    assert_int_equal(a.order, 0);
    qn_ledger_give_back(f.ledger, QN_MEM_BODY, 1);
    assert_int_equal(a.order, 1);
    /* a grant that fails says so, and the next one is served */
    struct entry b, c;
    entry_init(&b, 10 * f.page, &clock);
    entry_init(&c, 3 * f.page, &clock);
    assert_int_equal(qn_pool_wait(f.pool, &b.waiter, NULL), QN_NO_MEMORY);
    assert_int_equal(qn_pool_wait(f.pool, &c.waiter, NULL), QN_NO_MEMORY);
    qn_pool_release(f.pool, &a.lease); /* reused by b, without a mapping */
    assert_int_equal(b.status, QN_OK);
    entry_init(&a, 9 * f.page, &clock);
    a.lease.parts[1] = (qn_lease_part){ .cls = QN_MEM_SIDE, .bytes = 1 };
    qn_pool_cancel(f.pool, &c.waiter);
    assert_int_equal(qn_pool_wait(f.pool, &a.waiter, NULL), QN_NO_MEMORY);
    assert_int_equal(qn_pool_wait(f.pool, &c.waiter, NULL), QN_NO_MEMORY);
    atomic_store(&f.source.fail_calls, 1);
    qn_pool_release(f.pool, &b.lease);
    atomic_store(&f.source.fail_calls, 0);
    assert_int_equal(a.status, QN_DEVICE);
    assert_int_equal(c.status, QN_OK);
    assert_true(a.order < c.order);
    qn_pool_release(f.pool, &c.lease);
    close_fixture(&f);
}

/* ---- random sequences ---- */

static uint32_t next(uint32_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 17;
    *s ^= *s << 5;
    return *s;
}

enum { SLOTS = 24, PAGES = 256 };

struct slot {
    struct entry e;
    bool held, waiting;
};

static void random_lease(struct slot *s, const struct fixture *f,
                         uint32_t *seed, int *clock)
{
    static const qn_mem classes[] = { QN_MEM_ARENA, QN_MEM_INPUT,
                                      QN_MEM_OUTPUT, QN_MEM_SIDE };
    size_t most = next(seed) % 8 ? PAGES / 4 : PAGES;
    entry_init(&s->e, 0, clock);
    for (int i = 0; i < QN_LEASE_PARTS; i++) {
        size_t pages = next(seed) % 3 ? next(seed) % (most / 4 + 1) : 0;
        s->e.lease.parts[i].cls = classes[i];
        s->e.lease.parts[i].bytes =
            pages * f->page - (pages ? next(seed) % f->page : 0);
    }
}

/* First and last bytes carry the slot's mark for as long as it is held. */
static void mark(struct slot *s, unsigned char m, bool check)
{
    for (int i = 0; i < QN_LEASE_PARTS; i++) {
        unsigned char *p = s->e.lease.parts[i].data;
        size_t n = s->e.lease.parts[i].charged;
        if (!p)
            continue;
        if (check && (p[0] != m || p[n - 1] != m))
            fail_msg("slot %d part %d was overwritten", m, i);
        p[0] = p[n - 1] = m;
    }
}

static size_t wanted(const qn_lease *lease, size_t page)
{
    size_t total = 0;
    for (int i = 0; i < QN_LEASE_PARTS; i++)
        total += (lease->parts[i].bytes + page - 1) / page * page;
    return total;
}

static size_t room(const struct fixture *f)
{
    qn_ledger_state s;
    qn_ledger_read(f->ledger, &s);
    return s.budget - s.charged + s.by_class[QN_MEM_CACHE];
}

static void check_all(struct fixture *f, struct slot *slots, size_t other,
                      int step)
{
    qn_ledger_state s;
    qn_pool_state p;
    size_t leased = 0, waiters = 0, free_bytes = room(f);
    qn_ledger_read(f->ledger, &s);
    qn_pool_read(f->pool, &p);
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &slots[i];
        if (slot->waiting && slot->e.order) { /* granted meanwhile */
            slot->waiting = false;
            slot->held = slot->e.status == QN_OK;
            if (!slot->held && slot->e.status != QN_DEVICE)
                fail_msg("step %d: granted with %s", step,
                         qn_status_name(slot->e.status));
            mark(slot, (unsigned char)i, false);
        }
        for (int k = 0; k < QN_LEASE_PARTS; k++)
            leased += slot->e.lease.parts[k].charged;
        waiters += slot->waiting;
        if (slot->waiting && slot->e.waiter.bypassed > QN_POOL_MAX_BYPASS)
            fail_msg("step %d: passed %u times", step,
                     slot->e.waiter.bypassed);
        /* nobody waits who fits and is at the head */
        if (slot->waiting && !slot->e.waiter.prev &&
            wanted(&slot->e.lease, f->page) <= free_bytes)
            fail_msg("step %d: the head fits and waits", step);
    }
    if (s.charged > s.budget || p.leased != leased || p.waiters != waiters ||
        s.charged != other + p.leased + p.cached ||
        s.by_class[QN_MEM_CACHE] != p.cached ||
        atomic_load(&f->source.mapped) != p.leased + p.cached)
        fail_msg("step %d: charged %zu leased %zu/%zu cached %zu mapped %zu "
                 "waiters %zu/%zu", step, s.charged, p.leased, leased,
                 p.cached, atomic_load(&f->source.mapped), p.waiters, waiters);
}

static void start_slot(struct fixture *f, struct slot *s, int i,
                       uint32_t *seed, int *clock, int step)
{
    qn_pool_state before;
    bool wait = next(seed) % 2;
    random_lease(s, f, seed, clock);
    size_t need = wanted(&s->e.lease, f->page), have = room(f);
    qn_pool_read(f->pool, &before);
    qn_status st = wait ? qn_pool_wait(f->pool, &s->e.waiter, NULL)
                        : qn_pool_lease(f->pool, &s->e.lease, NULL);
    s->held = st == QN_OK;
    s->waiting = wait && st == QN_NO_MEMORY;
    bool failing = st == QN_DEVICE;
    if (!failing && need > PAGES * f->page && st != QN_TOO_LARGE)
        fail_msg("step %d: %zu bytes, %s", step, need, qn_status_name(st));
    if (!failing && need <= PAGES * f->page && !before.waiters &&
        (st == QN_OK) != (need <= have))
        fail_msg("step %d: %zu bytes of %zu, %s", step, need, have,
                 qn_status_name(st));
    if (s->held)
        mark(s, (unsigned char)i, false);
}

static void test_random(void **state)
{
    (void)state;
    for (uint32_t seed0 = 1; seed0 <= 6; seed0++) {
        struct fixture f;
        struct slot slots[SLOTS];
        uint32_t seed = seed0 * 7919;
        size_t other = 0;
        int clock = 0;
        memset(slots, 0, sizeof slots);
        open_fixture(&f, PAGES, 0);
        for (int step = 0; step < 4000; step++) {
            int i = (int)(next(&seed) % SLOTS);
            struct slot *s = &slots[i];
            size_t n = next(&seed) % (20 * f.page);
            atomic_store(&f.source.fail_calls, next(&seed) % 50 ? 0 : 2);
            if (s->held && next(&seed) % 3 == 0) {
                mark(s, (unsigned char)i, true);
                qn_pool_release_part(f.pool, &s->e.lease, next(&seed) % 4);
            } else if (s->held) {
                mark(s, (unsigned char)i, true);
                s->held = false;
                qn_pool_release(f.pool, &s->e.lease);
            } else if (s->waiting) {
                if (next(&seed) % 4 == 0 &&
                    qn_pool_cancel(f.pool, &s->e.waiter))
                    s->waiting = false;
            } else if (next(&seed) % 4) {
                start_slot(&f, s, i, &seed, &clock, step);
            } else if (next(&seed) % 2) {
                size_t have = room(&f);
                qn_status st =
                    qn_ledger_charge(f.ledger, QN_MEM_BODY, n, NULL);
                if ((st == QN_OK) != (n <= have))
                    fail_msg("step %d: charge %zu of %zu, %s", step, n, have,
                             qn_status_name(st));
                other += st == QN_OK ? n : 0;
            } else if (next(&seed) % 8 == 0) {
                qn_pool_trim(f.pool, n);
            } else {
                size_t less = n < other ? n : other;
                other -= less;
                qn_ledger_give_back(f.ledger, QN_MEM_BODY, less);
            }
            check_all(&f, slots, other, step);
        }
        atomic_store(&f.source.fail_calls, 0);
        qn_ledger_give_back(f.ledger, QN_MEM_BODY, other);
        for (bool more = true; more;) { /* waiters are granted as we go */
            more = false;
            check_all(&f, slots, 0, -1);
            for (int i = 0; i < SLOTS; i++) {
                more |= slots[i].held || slots[i].waiting;
                slots[i].held = false;
                qn_pool_release(f.pool, &slots[i].e.lease);
            }
        }
        close_fixture(&f);
    }
}

enum { THREADS = 4, RUNS = 1500 };

struct client {
    struct fixture *f;
    uint32_t seed;
    sem_t granted;
    qn_status status;
    size_t runs, waits, cancels;
    const char *fault;
};

static void wake(qn_waiter *waiter, qn_status status)
{
    struct client *c = waiter->arg;
    c->status = status;
    sem_post(&c->granted);
}

/* One lease at a time, waited for, so every client must come to its end. */
static void *run_client(void *arg)
{
    struct client *c = arg;
    struct fixture *f = c->f;
    for (size_t run = 0; run < RUNS && !c->fault; run++) {
        qn_lease lease = { 0 };
        qn_waiter waiter = { .lease = &lease, .granted = wake, .arg = c };
        size_t body = next(&c->seed) % (4 * f->page);
        for (int i = 0; i < QN_LEASE_PARTS; i++) {
            lease.parts[i].cls = i % 2 ? QN_MEM_INPUT : QN_MEM_ARENA;
            lease.parts[i].bytes = next(&c->seed) % (PAGES / 8 * f->page);
        }
        qn_status st = qn_pool_wait(f->pool, &waiter, NULL);
        if (st == QN_NO_MEMORY) {
            c->waits++;
            if (next(&c->seed) % 8 == 0 && qn_pool_cancel(f->pool, &waiter)) {
                c->cancels++;
                continue;
            }
            struct timespec end;
            clock_gettime(CLOCK_REALTIME, &end);
            end.tv_sec += 30;
            if (sem_timedwait(&c->granted, &end) != 0) {
                c->fault = "was not granted in 30 s";
                break;
            }
            st = c->status;
        }
        if (st != QN_OK) {
            c->fault = qn_status_name(st);
            break;
        }
        for (int i = 0; i < QN_LEASE_PARTS; i++)
            if (lease.parts[i].data)
                memcpy(lease.parts[i].data, &c->seed, sizeof c->seed);
        uint32_t sent = c->seed;
        bool charged =
            qn_ledger_charge(f->ledger, QN_MEM_BODY, body, NULL) == QN_OK;
        if (next(&c->seed) % 16 == 0)
            qn_pool_trim(f->pool, 0);
        for (int i = 0; i < QN_LEASE_PARTS; i++)
            if (lease.parts[i].data &&
                memcmp(lease.parts[i].data, &sent, sizeof sent) != 0)
                c->fault = "its memory was overwritten";
        if (charged)
            qn_ledger_give_back(f->ledger, QN_MEM_BODY, body);
        qn_pool_release_part(f->pool, &lease, 1);
        qn_pool_release(f->pool, &lease);
        c->runs++;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct fixture f;
    struct client clients[THREADS];
    pthread_t threads[THREADS];
    open_fixture(&f, PAGES, 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        clients[i] = (struct client){ .f = &f, .seed = 1234 + i };
        sem_init(&clients[i].granted, 0, 0);
        assert_int_equal(
            pthread_create(&threads[i], NULL, run_client, &clients[i]), 0);
    }
    size_t waits = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (clients[i].fault)
            fail_msg("client %d after %zu runs: %s", i, clients[i].runs,
                     clients[i].fault);
        waits += clients[i].waits;
        assert_int_equal(clients[i].runs + clients[i].cancels, RUNS);
        sem_destroy(&clients[i].granted);
    }
    assert_true(waits > 0);
    close_fixture(&f);
}

/* More ranges than the cache has room for are unmapped, not lost. */
static void test_many_ranges(void **state)
{
    (void)state;
    enum { MANY = 1100 };
    static qn_lease leases[MANY];
    struct fixture f;
    open_fixture(&f, MANY, 0);
    for (int i = 0; i < MANY; i++) {
        leases[i] = arena(1);
        assert_int_equal(qn_pool_lease(f.pool, &leases[i], NULL), QN_OK);
    }
    for (int i = 0; i < MANY; i++)
        qn_pool_release(f.pool, &leases[i]);
    qn_pool_state p;
    qn_pool_read(f.pool, &p);
    assert_int_equal(p.cached, atomic_load(&f.source.mapped));
    assert_true(p.cached < MANY * f.page);
    qn_lease all = arena(MANY * f.page);
    assert_int_equal(qn_pool_lease(f.pool, &all, NULL), QN_OK);
    qn_pool_release(f.pool, &all);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lease_parts),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_no_fragmentation),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_map_failure),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_mappings),
        cmocka_unit_test(test_fifo_and_bypass),
        cmocka_unit_test(test_wait_ends),
        cmocka_unit_test(test_ledger_wakes),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_many_ranges),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
