/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured graphs of launches. An instance is a plan's launches captured with
 * the addresses of one lease, which it keeps: a run that gets it needs no memory
 * and one call instead of a launch per kernel. Since everything that its kernels
 * know lies in that lease, it runs on any lane.
 *
 *   plain run, plain run, captured: when a plan's third run begins, its launches
 *   are recorded; then, and later, they run as a graph
 *
 * Instances are made outside of every lock, by the run that needs one, one at a
 * time on a device; a run that cannot capture launches plainly. Idle instances
 * go, least recently used first, when somebody waits for memory or lacks it, when
 * there are too many, and with their plan.
 */
#ifndef QN_EXEC_GRAPHS_H
#define QN_EXEC_GRAPHS_H

#include "runtime/exec/launch.h"

typedef struct qn_instance qn_instance;

/* An idle instance of the run's plan becomes its lease: true. */
bool qn_graphs_lease(qn_run *run);
/* The run has one, but it failed: from now on its lease is like any other. */
void qn_graphs_forget(qn_run *run);
/* Should this run, which holds a lease, be captured? Not where captures failed
 * before twice as many plain runs have passed. */
bool qn_graphs_wanted(const qn_run *run);
/* The graph that was captured for the run: its lease becomes an instance's.
 * False: no memory for it, and the graph is freed. */
bool qn_graphs_keep(qn_run *run, qn_agraph *graph, size_t bytes);
qn_agraph *qn_graphs_of(const qn_run *run);
/* The run is over and has an instance: it is idle again. */
void qn_graphs_return(qn_run *run);
/* A run of the plan has ended without one. */
void qn_graphs_count(qn_run *run);
/* The run's capture, or its graph, has failed. */
void qn_graphs_failed(qn_run *run);

/* Give up an idle instance, of each device the one that was used least recently
 * (arg: a qn_runtime). False: there is none. Any thread without locks. */
bool qn_graphs_give_up(void *arg);
/* As long as somebody waits for memory, and not for his turn, idle instances go.
 * Called whenever one becomes idle, and whenever somebody begins to wait, or has
 * his turn: whoever comes second sees the other. */
void qn_graphs_relieve(qn_runtime *runtime);
/* All of a plan's, which nobody uses any more. */
void qn_graphs_drop_plan(qn_plan *plan);

#endif
