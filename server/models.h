/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The models that a server has: the repository's entries, loaded one after the
 * other on a thread of its own, each with a state. A request takes a reference
 * to a loaded version and gives it back; unloading waits for that.
 */
#ifndef QN_SERVER_MODELS_H
#define QN_SERVER_MODELS_H

#include "models/ranks.h"
#include "models/repository.h"
#include "runtime/exec/session.h"
#include "server/metrics.h"
#include "server/replicas.h"
#include "server/warm.h"

typedef struct qn_models qn_models;

typedef enum qn_model_state {
    QN_MODEL_WAITING, /* its turn comes */
    QN_MODEL_LOADING,
    QN_MODEL_READY,
    QN_MODEL_FAILED
} qn_model_state;

const char *qn_model_state_name(qn_model_state state); /* "READY" */

/* A version that is loaded. Immutable, but for the atomics. */
typedef struct qn_served {
    const char *id;
    char version[24];
    qn_session *session; /* the first replica's; all are alike */
    qn_replica replicas[QN_ACCEL_MAX];
    uint32_t n_replicas;
    qn_precision precision; /* of products, on cards */
    qn_metrics *metrics;
    qn_static_report memory;
    char sha256[QN_SHA256_TEXT];
    char folder[512]; /* of the model's id */
    char producer[128], doc[512];
    int64_t ir_version, opset;
    size_t file_bytes;
    double load_ms;
    qn_open open; /* sizes that work where the model leaves them open */
    atomic_uint_fast64_t mean_ns; /* of the launches of a run; 0: unknown */
    atomic_size_t refs;
    struct qn_served *next; /* private */
} qn_served;

/* One row of the list. */
typedef struct qn_model_row {
    const char *id;
    uint64_t version; /* 0: unknown */
    qn_model_state state;
    const char *reason; /* "" unless FAILED */
    bool latest, required;
    const qn_served *served; /* NULL unless READY; valid during the call */
    qn_metrics *metrics;     /* of the id; lives as long as the registry */
} qn_model_row;

typedef struct qn_models_options {
    const char *dir; /* the repository */
    const char *const *required; /* ids that must be ready, besides those whose */
    size_t n_required;           /* configuration says so */
    /* precision, streams and graphs where config.json does not say */
    qn_session_options session;
    const char *closed; /* why no card is open though asked for; or NULL */
    bool fall_back;     /* models whose cards are lost go to the cpu */
    qn_log log;
} qn_models_options;

/*
 * Scan the repository and begin to load, on the runtime's accelerators unless a
 * configuration says otherwise. The options' texts are borrowed for as long as
 * the models. QN_NOT_FOUND: no such folder, or a required id that is not in it.
 */
QN_NODISCARD qn_status qn_models_new(const qn_models_options *options,
                                     qn_runtime *runtime, qn_models **out,
                                     qn_error *err);
/* Stops loading, waits for references, unloads. */
void qn_models_free(qn_models *models);

/* A version, NULL or "" for the highest that is ready. QN_NOT_FOUND;
 * QN_NOT_READY with the state or the reason. */
QN_NODISCARD qn_status qn_models_get(qn_models *models, const char *id,
                                     const char *version, qn_served **out,
                                     qn_error *err);
void qn_served_release(qn_served *served);
/* All its replicas are lost; err: why, of the last. */
bool qn_served_lost(const qn_served *served, qn_error *err);

/* A card is lost: with fall_back, models that have no other are loaded again, on
 * the cpu, by the loader's thread. Any thread; quick. */
void qn_models_look(qn_models *models);

/* All that are required are ready, and everything was tried. Otherwise `why`
 * says what is missing. */
bool qn_models_ready(qn_models *models, char *why, size_t size);

/* Visit all rows, ordered by id and version; `fn` must be quick. */
void qn_models_each(qn_models *models,
                    void (*fn)(const qn_model_row *row, void *arg), void *arg);

#endif
