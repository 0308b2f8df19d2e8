/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks, and the switch from one to another. It saves what the ABI says a
 * call preserves and nothing else: no system call, no signal mask. Stacks start
 * at staggered offsets: with all of them at one offset in a page, a round of a
 * barrier would evict its own cache lines. */
#include "tests/cuda/emu/fiber_run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- the switch: save the callee's registers here, take up those there */

void qn_simt_switch(void **save, void *to);

#if defined __x86_64__
__asm__(".text\n"
        ".globl qn_simt_switch\n"
        ".hidden qn_simt_switch\n"
        ".type qn_simt_switch,@function\n"
        ".p2align 4\n"
        "qn_simt_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size qn_simt_switch,.-qn_simt_switch\n");

static void *first_frame(char *top)
{
    void **sp = (void **)(void *)top;
    *--sp = NULL; /* what qn_simt_enter would return to */
    void (*enter)(void) = qn_simt_enter;
    memcpy(--sp, &enter, sizeof enter);
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    return sp;
}
#elif defined __aarch64__
__asm__(".text\n"
        ".globl qn_simt_switch\n"
        ".hidden qn_simt_switch\n"
        ".type qn_simt_switch,%function\n"
        ".p2align 4\n"
        "qn_simt_switch:\n"
        "    stp x29, x30, [sp, #-160]!\n"
        "    stp x19, x20, [sp, #16]\n"
        "    stp x21, x22, [sp, #32]\n"
        "    stp x23, x24, [sp, #48]\n"
        "    stp x25, x26, [sp, #64]\n"
        "    stp x27, x28, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #16]\n"
        "    ldp x21, x22, [sp, #32]\n"
        "    ldp x23, x24, [sp, #48]\n"
        "    ldp x25, x26, [sp, #64]\n"
        "    ldp x27, x28, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    ldp x29, x30, [sp], #160\n"
        "    ret\n"
        ".size qn_simt_switch,.-qn_simt_switch\n");

static void *first_frame(char *top)
{
    void **sp = (void **)(void *)top - 20;
    memset(sp, 0, 160);
    void (*enter)(void) = qn_simt_enter;
    memcpy(&sp[1], &enter, sizeof enter); /* x30 */
    return sp;
}
#else
#error "fibers: write the switch for this architecture"
#endif

void LEFT_BEHIND qn_simt_go(struct qn_simt_run *r, struct fiber *from,
                            struct fiber *to, bool last)
{
    r->current = to;
#if WITH_ASAN
    r->from_main = from == &r->main;
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake, to->stack,
                                   to->bytes);
#elif WITH_TSAN
    if (from == &r->main)
        from->context = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->context, 0);
#endif
    (void)last;
    qn_simt_switch(&from->sp, to->sp);
#if WITH_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(from->fake, &bottom, &bytes);
#endif
}

struct fiber *qn_simt_fiber_take(struct qn_simt_run *r)
{
    struct fiber *f;
    if (r->idle_fibers) {
        f = r->idle[--r->idle_fibers];
    } else {
        f = &r->fiber[r->fibers++];
        char *p = mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED || mprotect(p, GUARD_BYTES, PROT_NONE) != 0)
            qn_emu_report("no memory for the stack of fiber %u", r->fibers);
        f->stack = p + GUARD_BYTES;
#if WITH_ASAN
        f->bytes = STACK_BYTES;
#elif WITH_TSAN
        f->context = __tsan_create_fiber(0);
#endif
    }
    size_t number = (size_t)(f - r->fiber);
    f->sp = first_frame(f->stack + STACK_BYTES - (number * 5 % 64) * 64);
    f->has_thread = false;
    return f;
}

void LEFT_BEHIND qn_simt_fiber_entered(struct qn_simt_run *r)
{
#if WITH_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
    if (r->from_main) { /* the only way to learn about that stack */
        memcpy(&r->main.stack, &bottom, sizeof bottom);
        r->main.bytes = bytes;
    }
#else
    (void)r;
#endif
}
