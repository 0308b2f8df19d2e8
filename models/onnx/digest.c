/* SPDX-License-Identifier: Apache-2.0 */
#include "models/onnx/reader.h"

#include <openssl/evp.h>
#include <string.h>

enum { PIECE = 1 << 20, BINARY = 32 };

static bool digest(const uint8_t *bytes, size_t len, uint8_t out[BINARY])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned n = 0;
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

    for (size_t at = 0; ok && at < len; at += PIECE)
        ok = EVP_DigestUpdate(ctx, bytes + at,
                              len - at < PIECE ? len - at : PIECE) == 1;
    ok = ok && EVP_DigestFinal_ex(ctx, out, &n) == 1 && n == BINARY;
    EVP_MD_CTX_free(ctx);
    return ok;
}

qn_status qn_onnx_digest(const void *bytes, size_t len,
                         char sha256[QN_SHA256_TEXT], qn_error *err)
{
    uint8_t sum[BINARY];

    sha256[0] = 0;
    if (!digest(bytes, len, sum))
        return qn_fail(err, QN_INTERNAL, "the SHA-256 of a model failed");
    for (int k = 0; k < BINARY; k++) {
        sha256[2 * k] = "0123456789abcdef"[sum[k] >> 4];
        sha256[2 * k + 1] = "0123456789abcdef"[sum[k] & 15];
    }
    sha256[2 * BINARY] = 0;
    return QN_OK;
}

qn_status qn_model_digest(const qn_model_file *file, uint32_t i,
                          const char **name, char sha256[QN_SHA256_TEXT],
                          qn_error *err)
{
    const uint8_t *bytes = file->bytes;
    size_t len = file->len;

    *name = "";
    sha256[0] = 0;
    if (i) {
        const qn_external *e = file->externals;
        for (uint32_t k = 1; e && k < i; k++)
            e = e->next;
        if (!e)
            return qn_fail(err, QN_NOT_FOUND, "the model has no file %u", i);
        bytes = e->bytes;
        len = e->len;
        *name = e->path + strlen(file->folder) + 1;
    }
    return qn_onnx_digest(bytes, len, sha256, err);
}
