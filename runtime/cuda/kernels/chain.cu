/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.quern.Chain (runtime/ops/chain.h): each thread takes 16 bytes of input 0
 * through all steps in registers, so that a chain moves what its first input,
 * operands and output take, whatever its length. All threads of a block are at
 * the same step: its branches are uniform. After each step the value is rounded
 * to the type, which makes the bits those of the single kernels; the functions
 * are the same ones (pointwise.h).
 *
 * FULL: with the functions that are long and rare. Without them the kernel for
 * float takes 32 registers, not 40; those for 16 bits take 48 either way.
 */
#include "runtime/cuda/kernels/chain.h"

#include "runtime/cuda/kernels/pointwise.h"

template <class T, bool FULL, int V>
QN_DEVICE void apply(const qn_chain_args &g, const qn_chain_arg &s,
                     const walk_place &place, float (&f)[V])
{
    if (s.kind == QN_CHAIN_ARG_NONE) {
        pw_common<float, V>(s.op, f, s.a, s.b);
        if (FULL)
            pw_rare<float, V>(s.op, f);
        return;
    }
    float p[V], q[V];
    T x[1][V] = {};
    if (s.kind == QN_CHAIN_ARG_INPUT)
        walk_load<T, V, 1>(g.walk, &g.in[s.input], place, x);
    QN_UNROLL
    for (int i = 0; i < V; i++) {
        float other = s.kind == QN_CHAIN_ARG_INPUT ? qn_widen(x[0][i]) : s.a;
        p[i] = s.left ? other : f[i];
        q[i] = s.left ? f[i] : other;
    }
    pw_two<float, V>(s.op, p, q);
    if (FULL)
        pw_two_rare<float, V>(s.op, p, q);
    QN_UNROLL
    for (int i = 0; i < V; i++)
        f[i] = p[i];
}

template <class T, bool FULL> QN_DEVICE void run(const qn_chain_args &g)
{
    const int V = 16 / sizeof(T);
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        T x[1][V] = {};
        float f[V];
        walk_place place = walk_at<V>(g.walk, c);
        walk_load<T, V, 1>(g.walk, &g.in[0], place, x);
        for (int s = 0; s < g.n; s++) {
            QN_UNROLL
            for (int i = 0; i < V; i++)
                f[i] = qn_widen(x[0][i]);
            apply<T, FULL, V>(g, g.steps[s], place, f);
            QN_UNROLL
            for (int i = 0; i < V; i++)
                x[0][i] = qn_narrow<T>(f[i]);
        }
        walk_store<T, V>(g.walk, g.y, place, x[0]);
    }
}

#define CHAIN(suffix, T, FULL)                                                 \
    QN_KERNEL_BOUNDS(chain_##suffix, QN_WALK_THREADS, qn_chain_args, g)        \
    {                                                                          \
        run<T, FULL>(g);                                                       \
    }
CHAIN(f32, float, false)
CHAIN(full_f32, float, true)
CHAIN(f16, qn_half, true)
CHAIN(bf16, qn_bf16, true)
