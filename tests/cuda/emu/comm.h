/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stand-in for NCCL: ranks are threads or streams of one process.
 *
 *   nccl.c      the API: communicators, groups, what is checked at a call
 *   nccl_run.c  the meeting of the ranks on their streams, and the arithmetic
 *
 * The host never waits in a collective. On its stream each rank waits for the
 * others, as a kernel would; the last one does the work for all, in the order
 * of ranks. */
#ifndef QN_TESTS_CUDA_EMU_COMM_H
#define QN_TESTS_CUDA_EMU_COMM_H

#include <cuda.h>
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QN_COMM_RANKS  16
#define QN_COMM_RECENT 64

enum qn_comm_kind {
    QN_COMM_ALL_REDUCE,
    QN_COMM_ALL_GATHER,
    QN_COMM_REDUCE_SCATTER,
    QN_COMM_BROADCAST,
    QN_COMM_REDUCE,
};

/* What all ranks must agree on. */
struct qn_comm_spec {
    enum qn_comm_kind kind;
    ncclDataType_t type;
    ncclRedOp_t op;
    size_t count; /* elements, as in the call */
    int root;
};

/* One meeting. Under the clique's lock. */
struct qn_comm_meeting {
    struct qn_comm_meeting *next;
    uint64_t number;
    struct qn_comm_spec spec;
    int first; /* rank that came first */
    const char *send[QN_COMM_RANKS];
    char *recv[QN_COMM_RANKS];
    int arrived, left;
    bool done;
};

struct qn_comm_clique {
    struct qn_comm_clique *next; /* of all; under the registry's lock */
    ncclUniqueId id;
    int ranks, joined;
    struct ncclComm *comms[QN_COMM_RANKS];
    pthread_mutex_t lock; /* all below, and the ranks' counters */
    pthread_cond_t changed;
    bool aborted;
    struct qn_comm_meeting *meetings;
};

/* Never freed: a captured graph may still name it. */
struct ncclComm {
    struct ncclComm *next; /* of all; under the registry's lock */
    struct qn_comm_clique *clique;
    int rank, device;
    /* under the clique's lock */
    bool dead, finalized;
    uint64_t issued;   /* calls outside of captures */
    uint64_t executed; /* of those */
    uint64_t meetings; /* that this rank came to */
    /* who made call n outside of a group; n % QN_COMM_RECENT */
    struct {
        uint64_t call;
        pthread_t thread;
    } alone[QN_COMM_RECENT];
    ncclResult_t async;
};

/* One rank's part, as copied to the stream. */
struct qn_comm_part {
    struct ncclComm *comm;
    struct qn_comm_spec spec;
    const char *send;
    char *recv;
    uint64_t call; /* number of the call, from 1; 0 in a captured graph */
};

/* nccl.h declares these two without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/** On the stream: arg is a struct qn_comm_part. */
void qn_comm_run(void *arg);

/** Bytes of an element; 0 for a type that is not emulated. */
size_t qn_comm_size(ncclDataType_t type);

/** "all-reduce" ... */
const char *qn_comm_name(enum qn_comm_kind kind);

#endif /* QN_TESTS_CUDA_EMU_COMM_H */
