/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/support/emu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define SYMBOL(field, function) { #function, offsetof(test_emu, field) },
    TEST_EMU_LIST(SYMBOL)
#undef SYMBOL
};

const test_emu *test_emu_find(void)
{
    static test_emu emu;
    /* as on a card: what uses these functions is left out */
    if (getenv("QN_TEST_AS_CARD"))
        return NULL;
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return NULL;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *at = dlsym(library, symbols[i].name);
        if (!at)
            return NULL;
        memcpy((char *)&emu + symbols[i].at, &at, sizeof at);
    }
    return &emu;
}
