/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instruction sets. Loops that gain from wide vectors lie in runtime/cpu/simd/.
 * The makefile compiles each file there once per level:
 *
 *     simd/foo.c -> foo.base.o    what the target architecture guarantees
 *                -> foo.avx2.o    -mavx2 -mfma -mbmi2 -mf16c  (x86-64 only)
 *                -> foo.avx512.o  and -mavx512{f,bw,dq,vl}    (x86-64 only)
 *
 * with QN_ISA defined as base, avx2 or avx512. Such a file exports one constant
 * table of functions, QN_ISA_FN(qn_foo), and everything else in it is static.
 * Users declare the tables with QN_ISA_TABLES and choose with QN_ISA_PICK:
 *
 *     QN_ISA_TABLES(qn_foo_table, qn_foo);
 *     const qn_foo_table *t = QN_ISA_PICK(qn_foo, qn_isa_level());
 *
 * Rejected: target_clones and ifuncs, which run before a sanitizer is ready.
 * Results may differ between levels (fused multiply-add), never within one.
 */
#ifndef QN_CPU_ISA_H
#define QN_CPU_ISA_H

typedef enum qn_isa {
    QN_ISA_BASE,
    QN_ISA_AVX2,  /* and FMA, BMI2, F16C: x86-64-v3, Haswell and Zen */
    QN_ISA_AVX512 /* and BW, DQ, VL: Skylake-SP, Zen 4 and later */
} qn_isa;

/* The best level that this machine has. Cheap: reads what start-up code of
 * the compiler's library found. (F16C is older than AVX2, and clang 14 cannot
 * ask for it.) */
static inline qn_isa qn_isa_best(void)
{
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi2"))
        return QN_ISA_BASE;
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return QN_ISA_AVX512;
    return QN_ISA_AVX2;
#else
    return QN_ISA_BASE;
#endif
}

/*
 * The level that kernels run at. The AVX-512 code has not been executed yet: no
 * machine at hand had it. The unit tests run it where there is one, against the
 * same oracles; until they have passed on one, `make CFLAGS=-DQN_USE_AVX512` is
 * how to choose it, and a wrong answer is not how to find out.
 */
static inline qn_isa qn_isa_level(void)
{
    qn_isa best = qn_isa_best();
#ifdef QN_USE_AVX512
    return best;
#else
    return best > QN_ISA_AVX2 ? QN_ISA_AVX2 : best;
#endif
}

#define QN_ISA_JOIN2(name, isa) name##_##isa
#define QN_ISA_JOIN(name, isa) QN_ISA_JOIN2(name, isa)
/* Inside simd/: the name with this level's suffix. */
#define QN_ISA_FN(name) QN_ISA_JOIN(name, QN_ISA)

#ifdef __x86_64__
#define QN_ISA_TABLES(type, name)                                              \
    extern const type name##_base, name##_avx2, name##_avx512
#define QN_ISA_PICK(name, level)                                               \
    ((level) == QN_ISA_AVX512 ? &name##_avx512                                 \
     : (level) == QN_ISA_AVX2 ? &name##_avx2                                   \
                              : &name##_base)
#else
#define QN_ISA_TABLES(type, name) extern const type name##_base
#define QN_ISA_PICK(name, level) ((void)(level), &name##_base)
#endif

/* Before a loop whose iterations are independent although the compiler cannot
 * see it: pointers are equal (in place) or do not overlap at all. */
#if defined(__clang__)
/* a loop that has no vector form is fine, too */
#pragma clang diagnostic ignored "-Wpass-failed"
#define QN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define QN_INDEPENDENT _Pragma("GCC ivdep")
#else
#define QN_INDEPENDENT
#endif

#endif
