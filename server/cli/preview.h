/* SPDX-License-Identifier: Apache-2.0 */
/* The first values of a tensor, on one line. */
#ifndef QN_SERVER_CLI_PREVIEW_H
#define QN_SERVER_CLI_PREVIEW_H

#include "runtime/base/shape.h"
#include "runtime/base/string.h"

/* "0.1 0.25 -3 ..." into buf[size]; returns buf. */
const char *qn_preview(const qn_tensor *t, const qn_strings *strings, char *buf,
                       size_t size);

#endif
