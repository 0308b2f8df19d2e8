/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing without libFuzzer: replay files, then mutate them.
 *
 *   fuzz_x FILE...                  each file once: a corpus as a test
 *   fuzz_x -n 100000 [-s SEED] FILE...   and that many mutants, by turns
 *
 * A mutant is a file with one to four changes: a bit flipped, a byte set to a
 * telling value, a piece removed, doubled, or replaced by one of another file.
 * The same seed makes the same mutants. Prints how many inputs were accepted;
 * a crash or a sanitizer ends it, with the mutant's number known from -v.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 4096, MAX_SIZE = 1 << 20 };

typedef struct input {
    uint8_t *data;
    size_t n;
} input;

/* a target may do without */
#pragma weak fuzz_accepted

static unsigned long accepted(void)
{
    return &fuzz_accepted ? fuzz_accepted : 0;
}

static uint64_t state = 1;

/* splitmix64 */
static uint64_t next(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t n)
{
    return n ? (size_t)(next() % n) : 0;
}

static int read_file(const char *path, input *out)
{
    FILE *f = fopen(path, "rb");

    if (!f)
        return 0;
    out->data = malloc(MAX_SIZE);
    out->n = out->data ? fread(out->data, 1, MAX_SIZE, f) : 0;
    fclose(f);
    return out->data != NULL;
}

static size_t insert(uint8_t *to, size_t n, size_t at, const uint8_t *piece,
                     size_t len)
{
    uint8_t copy[4096];

    if (len > sizeof copy || len > MAX_SIZE - n)
        return n;
    memcpy(copy, piece, len);
    memmove(to + at + len, to + at, n - at);
    memcpy(to + at, copy, len);
    return n + len;
}

static size_t mutate(uint8_t *d, size_t n, const input *other)
{
    static const uint8_t telling[] = { 0, 1, 0x7f, 0x80, 0xff, 0x0a, 0x12 };
    size_t at = below(n), len = 1 + below(n - at < 64 ? n - at : 64);

    if (!n)
        return 0;
    if (len > n - at)
        len = n - at;
    switch (below(6)) {
    case 0:
        d[at] ^= (uint8_t)(1u << below(8));
        return n;
    case 1:
        d[at] = telling[below(sizeof telling)];
        return n;
    case 2:
        d[at] = (uint8_t)(d[at] + below(9) - 4);
        return n;
    case 3:
        memmove(d + at, d + at + len, n - at - len);
        return n - len;
    case 4:
        return insert(d, n, at, d + at, len);
    default:
        if (other->n < len)
            return n;
        memcpy(d + at, other->data + below(other->n - len + 1), len);
        return n;
    }
}

/* In a block of exactly its size, so that reading past the end is noticed. */
static void run(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);

    if (!copy)
        exit(2);
    if (n)
        memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

int main(int argc, char **argv)
{
    static input files[MAX_FILES];
    size_t n_files = 0;
    unsigned long mutants = 0;
    int verbose = 0;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-n") && i + 1 < argc)
            mutants = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "-s") && i + 1 < argc)
            state = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "-v"))
            verbose = 1;
        else if (n_files < MAX_FILES && read_file(argv[i], &files[n_files]))
            n_files++;
    }
    for (size_t i = 0; i < n_files; i++)
        run(files[i].data, files[i].n);
    printf("%zu files, %lu accepted\n", n_files, accepted());
    if (!n_files)
        return mutants != 0;
    uint8_t *work = malloc(2 * MAX_SIZE);
    if (!work)
        return 2;
    unsigned long before = accepted();
    for (unsigned long k = 0; k < mutants; k++) {
        const input *from = &files[k % n_files];
        size_t n = from->n, changes = 1 + below(2) * below(4);
        memcpy(work, from->data, n);
        while (changes--)
            n = mutate(work, n, &files[below(n_files)]);
        if (verbose)
            fprintf(stderr, "mutant %lu\n", k);
        run(work, n);
    }
    if (mutants)
        printf("%lu mutants, %lu accepted\n", mutants, accepted() - before);
    free(work);
    for (size_t i = 0; i < n_files; i++)
        free(files[i].data);
    return 0;
}
