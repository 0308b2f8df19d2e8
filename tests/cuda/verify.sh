#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every case of the ONNX backend tests that passes on the cpu passes with
# --device cuda, and in at least 95 of 100 no floating-point kernel ran on the
# cpu, by the launches that both plans count.
#
#   verify.sh BUILD/quern [FOLDER...]     on whatever libcuda.so.1 is found
set -u
quern=${1:-build/quern}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- "${TESTDATA:-/usr/share/libonnx-testdata/data}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM

# --batch: what is tested is the device, and opening it takes longer than a case
"$quern" verify --json --batch 50 "$@" >"$tmp/cpu.json" 2>"$tmp/cpu.err"
"$quern" verify --json --batch 50 --device cuda ${VERIFY_FLAGS:-} "$@" \
    >"$tmp/cuda.json" 2>"$tmp/cuda.err"

# one line a case: path, result, launches on the card, of floats on the cpu, reason;
# quern prints a key a line
lines() {
    awk '
        function text() { sub(/^[^:]*: "/, ""); sub(/",?$/, ""); return $0 }
        /^ *"path": /               { path = text() }
        /^ *"result": /             { result = text() }
        /^ *"reason": /             { reason = text() }
        /^ *"accel_launches": /     { accel = $2 + 0 }
        /^ *"cpu_float_launches": / { printf "%s\t%s\t%d\t%d\t%s\n", path,
                                      result, accel, $2, reason }' "$1"
}
lines "$tmp/cpu.json" >"$tmp/cpu"
lines "$tmp/cuda.json" >"$tmp/cuda"
if ! [ -s "$tmp/cpu" ] || [ "$(wc -l <"$tmp/cpu")" != "$(wc -l <"$tmp/cuda")" ]; then
    echo "FAILED cuda-verify: $(wc -l <"$tmp/cpu") cases on the cpu, $(wc -l <"$tmp/cuda") on cuda"
    cat "$tmp/cpu.err" "$tmp/cuda.err" | head -n 20
    echo "cuda-verify: 0 passed, 1 failed"
    exit 1
fi
awk -F '\t' -v least=0.95 '
    NR == FNR { if ($2 == "passed") on_cpu[$1]; next }
    !($1 in on_cpu) { next }
    $2 != "passed" { failed++; print "FAILED cuda-verify: " $1 ": " $2 ": " $5; next }
    { passed++; launched += $3 > 0 }
    $4 == 0 { whole++ }
    $4 > 0 { name = $1; sub(/.*\//, "", name); rest = rest " " name }
    END {
        all = passed + failed
        if (!launched) { failed++; print "FAILED cuda-verify: nothing ran on the card" }
        if (whole < least * all) {
            failed++
            print "FAILED cuda-verify: the least is " 100 * least " of 100 cases without floats on the cpu"
        }
        printf "cuda-verify: no floats on the cpu in %d of %d cases, %.1f %%; in the others:%s\n",
               whole, all, all ? 100 * whole / all : 0, rest
        printf "cuda-verify: %d passed, %d failed\n", passed, failed
        exit failed != 0
    }' "$tmp/cpu" "$tmp/cuda"
