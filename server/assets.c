/* SPDX-License-Identifier: Apache-2.0 */
#include "server/assets.h"

#include <string.h>

/* The assembler reads the file: no generated source, and gcc and clang do the
 * same. Paths count from the top of the tree. */
#define FILE_OF(symbol, path)                                                  \
    __asm__(".pushsection .rodata\n" #symbol ":\n.incbin \"" path              \
            "\"\n" #symbol "_end:\n.byte 0\n.popsection\n");                   \
    extern const char symbol[];                                                \
    extern const char symbol##_end[]

FILE_OF(qn_web_index, "web/index.html");
FILE_OF(qn_web_style, "web/style.css");
FILE_OF(qn_web_console, "web/console.js");
FILE_OF(qn_web_icon, "web/icon.svg");
FILE_OF(qn_web_openapi, "web/openapi.yaml");

static const qn_asset assets[] = {
    { "/", "text/html; charset=utf-8", qn_web_index, qn_web_index_end },
    { "/style.css", "text/css; charset=utf-8", qn_web_style, qn_web_style_end },
    { "/console.js", "text/javascript; charset=utf-8", qn_web_console,
      qn_web_console_end },
    { "/icon.svg", "image/svg+xml", qn_web_icon, qn_web_icon_end },
    { "/openapi.yaml", "application/yaml", qn_web_openapi,
      qn_web_openapi_end },
};

const qn_asset *qn_asset_find(const char *path)
{
    for (size_t i = 0; i < sizeof assets / sizeof assets[0]; i++)
        if (!strcmp(assets[i].path, path))
            return &assets[i];
    return NULL;
}
