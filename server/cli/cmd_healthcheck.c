/* SPDX-License-Identifier: Apache-2.0 */
/* quern healthcheck: asks a server whether it is well, for containers that have
 * no curl. */
#include "server/cli/client.h"
#include "server/cli/commands.h"
#include "server/cli/text.h"

#include <stdlib.h>
#include <string.h>

int qn_cmd_healthcheck(const qn_options *options)
{
    qn_error err = { 0 };
    qn_url url;
    qn_client client = { .fd = -1 };
    qn_answer answer = { 0 };
    char otherwise[64];
    const char *port = getenv("QUERN_PORT");
    snprintf(otherwise, sizeof otherwise, "http://127.0.0.1:%.5s/readyz",
             port && *port ? port : "8000");
    const char *text = options->n_args ? options->args[0] : otherwise;
    qn_status st = qn_url_parse(text, &url, &err);
    if (st == QN_OK && (!url.path[0] || !strcmp(url.path, "/")))
        snprintf(url.path, sizeof url.path, "/readyz");
    if (st == QN_OK)
        st = qn_client_open(&client, &url, (int)qn_opt_int(options, "timeout"),
                            &err);
    if (st == QN_OK)
        st = qn_client_call(&client, "GET", url.path, NULL, 0, &answer, &err);
    if (st == QN_OK)
        printf("%d %.*s\n", answer.status, (int)answer.len, answer.body);
    qn_client_close(&client);
    if (st != QN_OK)
        return qn_complain(&err);
    return answer.status == 200 ? 0 : 1;
}
