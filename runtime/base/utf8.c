/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/utf8.h"

#include <stdint.h>
#include <string.h>

unsigned qn_utf8_length(const char *p, const char *end)
{
    const unsigned char *s = (const unsigned char *)p;
    size_t left = (size_t)(end - p);
    unsigned len;
    unsigned char low = 0x80, high = 0xbf; /* of the second byte */

    if (!left)
        return 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[0] == 0xe0)
        low = 0xa0; /* shorter forms exist below */
    else if (s[0] == 0xed)
        high = 0x9f; /* surrogates */
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f; /* past U+10FFFF */
    if (left < len || s[1] < low || s[1] > high)
        return 0;
    for (unsigned i = 2; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

bool qn_utf8_valid(const char *bytes, size_t len)
{
    const char *p = bytes, *end = bytes + len;

    while (p < end) {
        unsigned n;
        uint64_t w;

        if (end - p >= 8) {
            memcpy(&w, p, 8);
            if (!(w & 0x8080808080808080u)) {
                p += 8;
                continue;
            }
        }
        n = qn_utf8_length(p, end);
        if (!n)
            return false;
        p += n;
    }
    return true;
}
