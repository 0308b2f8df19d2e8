/* SPDX-License-Identifier: Apache-2.0 */
/* What to say when somebody touches memory that is not theirs to touch. */
#include "tests/cuda/emu/internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef SEGV_PKUERR
#define SEGV_PKUERR 4
#endif

static struct sigaction before[2];

static void on_fault(int number, siginfo_t *info, void *context)
{
    static volatile sig_atomic_t once;
    char text[1024], where[300], what[300];
    struct sigaction *next = &before[number == SIGBUS];
    if (!once) {
        once = 1;
        qn_simt_where(where, sizeof where);
        range_text(info->si_addr, what, sizeof what);
        int n = snprintf(text, sizeof text,
                         "emulated CUDA: %s: address %p (%s); %s\n",
                         *where         ? where
                         : stream_doing ? stream_doing
                         : info->si_code == SEGV_PKUERR
                             ? "the host touches device memory"
                             : "fault outside of device code",
                         info->si_addr,
                         number == SIGBUS ? "not backed by memory" : "no access",
                         what);
        if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
            n = 0; /* nothing left to try */
    }
    if (next->sa_flags & SA_SIGINFO) {
        next->sa_sigaction(number, info, context);
    } else {
        signal(number, SIG_DFL); /* the access is repeated and kills */
    }
}

/* Faults of a fiber whose stack is full need another stack. */
void *faults_thread_start(void)
{
    enum { BYTES = 64 * 1024 };
    stack_t stack;
    if (sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE))
        return NULL; /* a sanitizer's */
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = malloc(BYTES);
    stack.ss_size = BYTES;
    if (stack.ss_sp)
        sigaltstack(&stack, NULL);
    return stack.ss_sp;
}

void faults_thread_end(void *stack)
{
    stack_t none;
    memset(&none, 0, sizeof none);
    none.ss_flags = SS_DISABLE;
    if (stack)
        sigaltstack(&none, NULL);
    free(stack);
}

void faults_init(void)
{
    struct sigaction own;
    memset(&own, 0, sizeof own);
    own.sa_sigaction = on_fault;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&own.sa_mask);
    sigaction(SIGSEGV, &own, &before[0]);
    sigaction(SIGBUS, &own, &before[1]);
}
