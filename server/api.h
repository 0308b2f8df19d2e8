/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of everything but inference. */
#ifndef QN_SERVER_API_H
#define QN_SERVER_API_H

#include "server/server.h"

/* Answer with what the writer wrote, or 500 if that failed. Takes the sink. */
void qn_api_answer_json(qn_server *server, qn_exchange *x, unsigned status,
                        qn_json *json, qn_sink *sink);

/* models_api.c */
void qn_handle_models(qn_exchange *x, void *server);
void qn_handle_model(qn_exchange *x, void *server);
void qn_handle_graph(qn_exchange *x, void *server);
/* memory_api.c */
void qn_handle_memory(qn_exchange *x, void *server);
/* {"budget", "charged", "peak", "by_class": {...}} as member `key`. */
void qn_write_ledger(qn_json *json, const char *key, qn_ledger *ledger);
/* example.c */
void qn_handle_example(qn_exchange *x, void *server);
/* metrics_api.c */
void qn_handle_metrics(qn_exchange *x, void *server);

#endif
