/* SPDX-License-Identifier: Apache-2.0 */
#include "server/watch.h"

#include "runtime/base/clock.h"

#include <semaphore.h>
#include <setjmp.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct seen {
    sem_t posted;
    qn_watch_why why;
    uint64_t at;
} seen;

static void fired(qn_watched *entry, qn_watch_why why)
{
    seen *s = entry->arg;
    s->why = why;
    s->at = qn_clock_ns();
    sem_post(&s->posted);
}

/* True if it was posted within `ms`. */
static bool wait_ms(sem_t *s, int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return sem_timedwait(s, &t) == 0;
}

/* A connected pair of TCP sockets. */
static void connect_pair(int pair[2])
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&a, sizeof a), 0);
    pair[1] = accept(listener, NULL, NULL);
    assert_true(pair[1] >= 0);
    close(listener);
}

typedef enum leave { RESET, HALF_CLOSE, STAY } leave;

static void test_clients(void **state)
{
    static const struct {
        const char *what;
        leave how;
        bool half_close_counts, fires;
    } rows[] = {
        { "a reset", RESET, false, true },
        { "a half-close", HALF_CLOSE, false, false },
        { "a half-close that counts", HALF_CLOSE, true, true },
        { "a client that stays", STAY, true, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_watch *w;
        qn_error err = { 0 };
        seen s;
        int pair[2];
        struct linger now = { .l_onoff = 1 };
        memset(&s, 0, sizeof s);
        sem_init(&s.posted, 0, 0);
        connect_pair(pair);
        assert_int_equal(qn_watch_new(4, rows[i].half_close_counts, &w, &err),
                         QN_OK);
        qn_watched e = { .fd = pair[1], .fired = fired, .arg = &s };
        assert_int_equal(qn_watch_add(w, &e), QN_OK);
        if (rows[i].how == RESET)
            setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &now, sizeof now);
        if (rows[i].how == HALF_CLOSE)
            shutdown(pair[0], SHUT_WR);
        else if (rows[i].how == RESET)
            close(pair[0]);
        bool did = wait_ms(&s.posted, rows[i].fires ? 2000 : 60);
        if (did != rows[i].fires || (did && s.why != QN_WATCH_GONE))
            fail_msg("%s: fired %d", rows[i].what, did);
        if (qn_watch_remove(w, &e) == did)
            fail_msg("%s: remove does not agree", rows[i].what);
        qn_watch_free(w);
        if (rows[i].how != RESET)
            close(pair[0]);
        close(pair[1]);
        sem_destroy(&s.posted);
    }
}

static void test_times_in_order(void **state)
{
    enum { N = 20 };
    qn_watch *w;
    qn_error err = { 0 };
    seen s[N];
    qn_watched e[N];
    uint64_t now = qn_clock_ns();
    (void)state;
    assert_int_equal(qn_watch_new(N, false, &w, &err), QN_OK);
    for (size_t i = 0; i < N; i++) {
        memset(&s[i], 0, sizeof s[i]);
        sem_init(&s[i].posted, 0, 0);
        /* 7 is coprime to N: a shuffled order */
        e[i] = (qn_watched){ .fd = -1,
                             .end_ns = now + 20000000 + i * 7 % N * 3000000,
                             .fired = fired,
                             .arg = &s[i] };
        assert_int_equal(qn_watch_add(w, &e[i]), QN_OK);
    }
    qn_watched more = { .fd = -1, .end_ns = now, .fired = fired, .arg = &s[0] };
    assert_int_equal(qn_watch_add(w, &more), QN_BUSY);
    assert_true(qn_watch_remove(w, &e[3]));
    assert_false(qn_watch_remove(w, &e[3]));
    for (size_t i = 0; i < N; i++) {
        if (i == 3)
            continue;
        if (!wait_ms(&s[i].posted, 2000) || s[i].why != QN_WATCH_TIME ||
            s[i].at < e[i].end_ns)
            fail_msg("entry %zu: not fired, or too early", i);
    }
    assert_false(wait_ms(&s[3].posted, 10));
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++)
            if (i != 3 && k != 3 && e[i].end_ns < e[k].end_ns &&
                s[i].at > s[k].at)
                fail_msg("entry %zu fired after %zu", i, k);
    qn_watch_free(w);
}

static void test_later_and_sooner(void **state)
{
    qn_watch *w;
    qn_error err = { 0 };
    seen s;
    uint64_t now = qn_clock_ns();
    (void)state;
    memset(&s, 0, sizeof s);
    sem_init(&s.posted, 0, 0);
    assert_int_equal(qn_watch_new(4, false, &w, &err), QN_OK);
    qn_watched e = { .fd = -1, .end_ns = now + 60000000000u, .fired = fired,
                     .arg = &s };
    assert_int_equal(qn_watch_add(w, &e), QN_OK);
    assert_false(wait_ms(&s.posted, 20));
    qn_watch_set_end(w, &e, qn_clock_ns() + 10000000);
    assert_true(wait_ms(&s.posted, 2000));
    assert_false(qn_watch_remove(w, &e));
    qn_watch_free(w);
    sem_destroy(&s.posted);
}

/* fired() may put its entry in again; remove() waits for it. */
static qn_watch *again_watch;
static void fire_again(qn_watched *entry, qn_watch_why why)
{
    seen *s = entry->arg;
    (void)why;
    sem_post(&s->posted);
    entry->end_ns = qn_clock_ns() + 1000000;
    assert_int_equal(qn_watch_add(again_watch, entry), QN_OK);
}

static void test_again(void **state)
{
    qn_error err = { 0 };
    seen s;
    (void)state;
    memset(&s, 0, sizeof s);
    sem_init(&s.posted, 0, 0);
    assert_int_equal(qn_watch_new(4, false, &again_watch, &err), QN_OK);
    qn_watched e = { .fd = -1, .end_ns = qn_clock_ns(), .fired = fire_again,
                     .arg = &s };
    assert_int_equal(qn_watch_add(again_watch, &e), QN_OK);
    for (int i = 0; i < 5; i++)
        assert_true(wait_ms(&s.posted, 2000));
    assert_true(qn_watch_remove(again_watch, &e));
    while (!sem_trywait(&s.posted))
        ;
    assert_false(wait_ms(&s.posted, 20));
    qn_watch_free(again_watch);
    sem_destroy(&s.posted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_times_in_order),
        cmocka_unit_test(test_later_and_sooner),
        cmocka_unit_test(test_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
