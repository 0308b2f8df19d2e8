/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/support/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* A function of the emulated driver, copied to where `out` points (ISO C has no
 * conversion of data pointers to functions); false on a real one. */
static bool find(const char *name, void *out)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    bool card = getenv("QN_TEST_AS_CARD") != NULL;
    void *p = driver && !card ? dlsym(driver, name) : NULL;
    if (driver)
        dlclose(driver);
    memcpy(out, &p, sizeof p);
    return p;
}

bool library_reset(void)
{
    void (*reset)(void);
    if (!find("qn_emu_reset_counts", &reset))
        return false;
    reset();
    return true;
}

uint64_t library_count(const char *what)
{
    uint64_t (*count)(const char *what);
    return find("qn_emu_count", &count) ? count(what) : 0;
}

void library_fail(const char *api, uint64_t nth, int code)
{
    void (*at)(const char *what, uint64_t n, int status);
    void (*none)(void);
    if (!find("qn_emu_fail_at", &at) || !find("qn_emu_fail_none", &none))
        return;
    if (api)
        at(api, nth, code);
    else
        none();
}
