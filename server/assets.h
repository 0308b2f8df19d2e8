/* SPDX-License-Identifier: Apache-2.0 */
/* The files of web/, inside the binary. */
#ifndef QN_SERVER_ASSETS_H
#define QN_SERVER_ASSETS_H

#include <stddef.h>

typedef struct qn_asset {
    const char *path; /* in a URL */
    const char *type;
    const char *data, *end;
} qn_asset;

const qn_asset *qn_asset_find(const char *path);

#endif
