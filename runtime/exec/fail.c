/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from everything else: plug-ins link it too. */
#include "runtime/exec/kernel.h"

#include <stdio.h>

qn_status qn_launch_fail(const qn_launch *k, qn_status status, const char *fmt,
                         ...)
{
    char text[400], node[QN_NODE_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return qn_fail(k->err, status, "%s: %s", qn_node_text(k->node, node), text);
}
