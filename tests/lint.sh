#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the compiler does not check: structure and habits. Prints each offence,
# ends with 1 if there was one.
set -u
cd "$(dirname "$0")/.."
CC=${CC:-cc}
bad=0
say() {
    echo "lint: $*"
    bad=1
}
# Lines on stdin are offences of the kind $1.
offences() {
    while IFS= read -r line; do
        echo "lint: $1: $line"
        echo x >>"$count"
    done
}
count=$(mktemp)
scratch=$(mktemp -d)
trap 'rm -rf "$count" "$scratch"' EXIT

sources=$(find runtime models server tests -name '*.[ch]' | sort)
ours=$(find runtime models server -name '*.[ch]' | sort)

# --- every header compiles alone
cuda=${CUDA_HOME:-/usr/local/cuda}/include
c_header() {
    $CC -std=c11 -D_GNU_SOURCE -I. -isystem "$cuda" -Wall -Wextra -Wpedantic \
        -Werror -fsyntax-only -x c "$1" 2>"$scratch/err"
}
# Those of device code are C++, as the emulation compiles it; those with types of
# CUDA need its headers, where these are.
cuda_header() {
    [ -e "$cuda/cuda.h" ] || return 0
    c_header "$1" && return 0
    cp "$scratch/err" "$scratch/first"
    "${CXX:-c++}" -std=c++17 -DQN_CUDA_EMU -I. -Itests/cuda/emu -isystem "$cuda" \
        -fsyntax-only -x c++ "$1" 2>"$scratch/err" && return 0
    grep -q QN_DEVICE "$1" || cp "$scratch/first" "$scratch/err"
    return 1
}
for h in $(find runtime models server tests -name '*.h' | sort); do
    # templates, expanded once a type by their includer, have no guard
    grep -q '^#ifndef QN_' "$h" || { grep -q 'FN(' "$h" && continue; }
    case $h in
    runtime/cuda/* | tests/cuda/*) cuda_header "$h" ;;
    *) c_header "$h" ;;
    esac || say "$h does not compile alone: $(head -n 1 "$scratch/err")"
done

# --- includes run one way: server -> models -> runtime
grep -nE '#include "(server|models|tests)/' $(find runtime -name '*.[ch]') |
    offences "runtime may include only runtime"
grep -nE '#include "(server|tests)/' $(find models -name '*.[ch]') |
    offences "models may not include server"
grep -nE '#include "tests/' $(find server -name '*.[ch]') |
    offences "server may not include tests"

# --- each foreign library in its place
only() {
    header=$1
    shift
    for f in $(grep -lE "#include <$header" $ours); do
        ok=no
        for place in "$@"; do
            case $f in $place) ok=yes ;; esac
        done
        [ $ok = yes ] || echo "$f includes <$header>" | offences "foreign header"
    done
}
only 'microhttpd\.h' server/http.c
only 'openssl/' 'models/digest.c' 'models/onnx/digest.c' 'models/onnx/model.c' \
    'models/repository.c' 'server/tls*.c'
only 'jansson\.h' 'server/cli/*' 'server/codec/*' 'models/config.c' \
    'models/repository.c'
only '(dnnl|oneapi)' 'runtime/cpu/*'
only 'cuda' 'runtime/cuda/*'

# --- functions that are never right here
banned='strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|system|popen|tmpnam|mktemp|atof|rand|srand'
grep -nE "(^|[^A-Za-z0-9_.>])($banned) *\(" $ours | grep -vE ':[0-9]+: *(\*|/\*)' |
    offences "banned function"
# the library never prints, exits or aborts, and has a heap of its own
grep -nE '(^|[^A-Za-z0-9_.>])(printf|fprintf|puts|fputs|perror|exit|_exit|abort) *\(' \
    $(find runtime models -name '*.[ch]') | grep -vE ':[0-9]+: *(\*|/\*)' |
    offences "the library may not print or exit"
grep -nE '(^|[^A-Za-z0-9_.>])(malloc|calloc|realloc|strdup) *\(' \
    $(find runtime models -name '*.[ch]' -not -path runtime/base/alloc.c) |
    grep -vE ':[0-9]+: *(\*|/\*)' |
    offences "the library allocates through runtime/base/alloc.h"

# --- first line, length, tabs
for f in $sources; do
    case $(head -n 1 "$f") in
        '/* SPDX-License-Identifier: Apache-2.0 */') ;;
        *) say "$f: the first line is not the SPDX line" ;;
    esac
    lines=$(wc -l <"$f")
    case $f in tests/*) most=1200 ;; *) most=700 ;; esac
    [ "$lines" -le $most ] || say "$f has $lines lines, the aim is 600"
done
grep -nP '\t' $sources | offences "tab"
grep -nP ' +$' $sources | offences "blanks at the end of a line"
grep -nP '^.{101,}' $ours | offences "over 100 columns"
for f in $(find deploy tests .ci web -name '*.sh' -o -path .ci/run); do
    head -n 4 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
        say "$f: no SPDX line"
    sh -n "$f" 2>/dev/null || bash -n "$f" || say "$f: does not parse"
done

# --- format: only where the same version of clang-format is there
if [ "${FORMAT:-}" ] && clang-format --version 2>/dev/null | grep -q 'version 14'; then
    for f in $ours; do
        clang-format --dry-run "$f" 2>&1 | head -n 1 | offences "format"
    done
fi

[ -s "$count" ] && bad=1
[ $bad = 0 ] && echo "lint: nothing to say"
exit $bad
