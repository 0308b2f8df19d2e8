#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What only a card can tell, in five minutes at most, as a table in Markdown: its
# last lines of output, and the file that it names.
#
#   gpu-check.sh [--no-build] [--budget SECONDS] [--out FILE]
#   CUDA_EMU_DIR=build/cuda-emu gpu-check.sh --emulated
#
# Builds what is not current first (make gpu-check-build; nvcc has to be there),
# for the card's own architecture; --no-build takes build/ as it is. The budget is
# for the checks; each part has a limit of its own, and what does not end in time
# is a row that says so, so there is a table in every case. Needs no Python.
# --emulated tests this script: the table says so, its numbers mean nothing.
set -u
cd "$(dirname "$0")/../.."
build=yes
emulated=
budget=300
out=
while [ $# -gt 0 ]; do
    case $1 in
        --no-build) build= ;;
        --emulated) emulated=yes ;;
        --budget) budget=$2 && shift ;;
        --out) out=$2 && shift ;;
        *) echo "gpu-check: unknown argument $1" >&2
           exit 2 ;;
    esac
    shift
done
quern=build/quern
card=build/tests/cuda/card/card
testdata=${TESTDATA:-/usr/share/libonnx-testdata/data}
tmp=$(mktemp -d)
pid=
trap '[ -n "$pid" ] && kill -KILL "$pid" 2>/dev/null; rm -rf "$tmp"' EXIT INT TERM
: "${out:=build/gpu-check.md}"
failed=0
export QUERN_PLUGIN_DIR="$PWD/build"
if [ "$emulated" ]; then
    emu=$(realpath "${CUDA_EMU_DIR:-build/cuda-emu}")
    export LD_LIBRARY_PATH="$emu"
    # tests do without the emulated driver's own functions, as they have to there
    export QN_TEST_AS_CARD=1
    duration=300ms small=small
else
    duration=2s small=
fi

build_log=$tmp/build
build_s=0
if [ "$build" ]; then
    at=$(date +%s)
    cap=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
        head -n 1 | tr -d '. ')
    if [ "$emulated" ]; then set -- cuda-emu; else set -- ${cap:+CUDA_ARCHS="$cap"}; fi
    (unset LD_LIBRARY_PATH
     make -j"$(nproc)" "$@" gpu-check-build) >"$build_log" 2>&1 || {
        tail -n 20 "$build_log"
        echo "gpu-check: the build failed"
        exit 1
    }
    build_s=$(($(date +%s) - at))
fi
begin=$(date +%s)
if ! [ -x $card ]; then
    echo "gpu-check: $card is not built: make gpu-check-build, where nvcc is"
    exit 1
fi
# without a card there is nothing to tell
timeout 60 $card open >"$tmp/o" 2>"$tmp/e" || {
    echo "gpu-check: no card could be opened: $(cat "$tmp/e" "$tmp/o" | tail -n 1)"
    exit 1
}

# left LIMIT: seconds that a part may take: LIMIT, or what is left of the budget
left() {
    rest=$((budget - ($(date +%s) - begin)))
    [ $rest -gt 1 ] || rest=1
    [ $rest -lt "$1" ] && echo $rest || echo "$1"
}
# within LIMIT command...: output to $tmp/o, errors to $tmp/e
within() {
    limit=$(left "$1")
    shift
    timeout -k 5 "$limit" "$@" >"$tmp/o" 2>"$tmp/e"
}
bad() { failed=$((failed + 1)); }
why() { # a status in words
    case $1 in
        0) echo passed ;;
        77) echo "skipped: $(sed -n 's/^skipped: //p' "$tmp/o" | head -n 1)" ;;
        124 | 137) echo "FAILED: not within $limit s" ;;
        *) echo "FAILED: status $1: $(cat "$tmp/e" "$tmp/o" |
            grep -v '^\[ *\(OK\|RUN\)' | tail -n 1 | cut -c 1-160 | tr '|' '/')" ;;
    esac
}
# key FILE NAME: a number of quern's JSON
key() { sed -n "s/^ *\"$2\": *\([-0-9.e]*\),\{0,1\}\$/\1/p" "$1" | head -n 1; }

{
    echo "# Quern on a card"
    echo
    [ -z "$emulated" ] || echo "**EMULATED: this is a test of the script, not of a card.**"
    echo "$(LC_ALL=C date -u '+%-d %B %Y, %H:%M UTC'), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)," \
        "$(nproc) cores; build $([ "$build" ] && echo "$build_s s" || echo "not by this script")."
    echo
    echo "## Card, driver, libraries; opening"
    echo
    echo "| what | value |"
    echo "|---|---|"
} >"$out"
if command -v nvidia-smi >/dev/null && [ -z "$emulated" ]; then
    echo "| nvidia-smi | $(timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total \
        --format=csv,noheader 2>&1 | head -n 1) |" >>"$out"
fi
within 60 $card open
status=$?
grep '^|' "$tmp/o" >>"$out"
if [ $status != 0 ]; then
    bad
    echo "| opening | $(why $status) |" >>"$out"
fi

# --- (a) each family of kernels
{
    echo
    echo "## Kernels and the plug-in against the cpu"
    echo
    echo "| tests | cases | seconds | result |"
    echo "|---|---:|---:|---|"
} >>"$out"
for t in build/tests/cuda/test_*; do
    case $t in *.o | *.d | *test_emu*) continue ;; esac
    [ -x "$t" ] || continue
    at=$(date +%s)
    within 40 "$t"
    status=$?
    [ $status = 0 ] || [ $status = 77 ] || bad
    # cmocka writes to both
    n=$(cat "$tmp/o" "$tmp/e" | sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' | head -n 1)
    echo "| ${t##*/} | ${n:-0} | $(($(date +%s) - at)) | $(why $status) |" >>"$out"
done

# --- (b) ONNX backend tests
{
    echo
    echo "## Whole models"
    echo
} >>"$out"
if [ -d "$testdata" ]; then
    # 64 cases a context: opening one takes longer than a case
    within 90 env TESTDATA="$testdata" VERIFY_FLAGS="--batch 64 --timeout 30s" \
        sh tests/cuda/verify.sh $quern "$testdata"
    status=$?
    [ $status = 0 ] || bad
    echo "ONNX backend tests: $(sed -n 's/^cuda-verify: \(.*\)/\1/p' "$tmp/o" |
        tr '\n' ' ')$([ $status = 124 ] && why 124)" >>"$out"
    sed -n 's/^FAILED cuda-verify: /- FAILED /p' "$tmp/o" | head -n 20 |
        sed "s|$testdata/||" >>"$out"
else
    echo "ONNX backend tests: skipped, $testdata is not here (libonnx-testdata)" >>"$out"
fi

# --- (b, c, e) networks with random weights
mkdir -p "$tmp/nets"
$card networks "$tmp/nets" $small
{
    echo
    echo "Networks with random weights. Error: largest difference over largest value of the"
    echo "cpu's answer; limits 1e-4, 2e-2, 2e-2, 1e-1. Graphs: twelve answers by captured graphs"
    echo "against plain launches, bit for bit, and what the graphs hold. The transformer has GELU by erf."
    echo
    echo "| network | launches | floats on the cpu | fp32 | tf32 | fp16 | bf16 | graphs | result |"
    echo "|---|---:|---:|---:|---:|---:|---:|---|---|"
} >>"$out"
for f in "$tmp"/nets/*.onnx; do
    within 40 $card compare "$f"
    status=$?
    [ $status = 0 ] || bad
    if grep -q '^|.*|$' "$tmp/o"; then
        grep '^|' "$tmp/o" >>"$out"
    else
        echo "| ${f##*/} | | | | | | | | $(why $status) |" >>"$out"
    fi
done

# --- (c, d) time
{
    echo
    echo "## Latency and throughput"
    echo
    echo "p50 in ms of one request at a time; inferences a second, as many clients as lanes."
    echo
    echo "| network | cpu | plain | graphs | 1 lane | 2 lanes | 4 lanes |"
    echo "|---|---:|---:|---:|---:|---:|---:|"
} >>"$out"
measure() { # MODEL KEY FLAGS...
    model=$1 wanted=$2
    shift 2
    within 12 $quern bench "$model" --json --duration "$duration" "$@"
    status=$?
    n=$(key "$tmp/o" "$wanted")
    if [ $status != 0 ] || [ -z "$n" ]; then
        bad
        why "$([ $status = 0 ] && echo 1 || echo $status)" >"$tmp/cell"
    else
        printf '%.*f' "$([ "$wanted" = p50_ms ] && echo 3 || echo 0)" "$n" >"$tmp/cell"
    fi
}
for f in "$tmp"/nets/*.onnx; do
    row="| ${f##*/}"
    measure "$f" p50_ms --device cpu && row="$row | $(cat "$tmp/cell")"
    measure "$f" p50_ms --device cuda --no-graphs && row="$row | $(cat "$tmp/cell")"
    measure "$f" p50_ms --device cuda && row="$row | $(cat "$tmp/cell")"
    for lanes in 1 2 4; do
        measure "$f" inferences_per_s --device cuda --lanes $lanes --concurrency $lanes &&
            row="$row | $(cat "$tmp/cell")"
    done
    echo "$row |" >>"$out"
done

# --- (f) a lost card
{
    echo
    echo "## A kernel that writes where it may not"
    echo
    echo "| what | result |"
    echo "|---|---|"
} >>"$out"
expect() { # WHAT GOT WANTED
    if [ "$2" = "$3" ]; then
        echo "| $1 | $2 |" >>"$out"
    else
        bad
        echo "| $1 | FAILED: $2, wanted $3 |" >>"$out"
    fi
}
get() { curl -s -m 10 -o "$tmp/body" -w '%{http_code}' "http://127.0.0.1:$port$1"; }
infer() {
    curl -s -m 10 "http://127.0.0.1:$port/v1/models/digits/example?raw=true" >"$tmp/request"
    curl -s -m 20 -o "$tmp/body" -w '%{http_code}' --data-binary @"$tmp/request" \
        "http://127.0.0.1:$port/v1/models/digits:infer"
}
lose() { # POLICY: starts a server, loses its card; leaves $port, $pid
    rm -f "$tmp/poison" "$tmp/log"
    QN_POISON="$tmp/poison" LD_PRELOAD="$PWD/build/tests/cuda/card/libpoison.so" \
        $quern serve --models models/examples --require digits --device cuda:0 \
        --on-device-fault "$1" --port 0 2>"$tmp/log" &
    pid=$!
    n=0
    port=
    while [ $n -lt 300 ] && kill -0 $pid 2>/dev/null; do
        port=$(sed -n 's/.*on http:\/\/[^"]*:\([0-9]*\), .*/\1/p' "$tmp/log" | head -n 1)
        [ -n "$port" ] && [ "$(get /readyz)" = 200 ] && break
        n=$((n + 1))
        sleep 0.1
    done
    ready=$(get /readyz)
    before=$(infer)
    : >"$tmp/poison"
    n=0
    until grep -q '^poison: ' "$tmp/log" || [ $n -ge 100 ]; do
        n=$((n + 1))
        sleep 0.1
    done
    after=$(infer)
}
if command -v curl >/dev/null; then
    # the server says that it is not ready for a second, then ends
    lose exit
    expect "--on-device-fault exit: ready before" "$ready" 200
    expect "a request before" "$before" 200
    expect "the request that meets the fault" "$after" 503
    expect "/readyz" "$(get /readyz)" 503
    expect "/healthz" "$(get /healthz)" 200
    (sleep 15 && kill -KILL $pid) 2>/dev/null &
    guard=$!
    wait $pid
    expect "the server ends with status" $? 1
    kill $guard 2>/dev/null
    echo "| its log | $(sed -n 's/.*"\([^"]*beyond use[^"]*\)".*/\1/p' "$tmp/log" |
        head -n 1 | cut -c 1-200) |" >>"$out"
    lose cpu
    expect "--on-device-fault cpu: the request that meets the fault" "$after" 503
    n=0
    until [ "$(get /readyz)" = 200 ] || [ $n -ge 100 ]; do
        n=$((n + 1))
        sleep 0.1
    done
    expect "/readyz, on the cpu" "$(get /readyz)" 200
    expect "a request, on the cpu" "$(infer)" 200
    kill -TERM $pid 2>/dev/null
    wait $pid
    expect "the server ends with status" $? 0
    pid=
else
    echo "| all | skipped: curl is not here |" >>"$out"
fi

# --- (g) what cuDNN takes
{
    echo
    echo "## What cuDNN takes"
    echo
    echo "Operation graphs of the convolutional networks; \"rounded\": at TF32. Those that no"
    echo "engine takes, by the rules of runtime/cuda/README.md, run on our own kernels. The whole"
    echo "list, with engines: ${out##*/}.cudnn."
    echo
    echo "| graph | taken | refused | engines | largest workspace, MiB |"
    echo "|---|---:|---:|---|---:|"
} >>"$out"
within 60 $card chosen "$tmp"/nets/residual.onnx "$tmp"/nets/mobile.onnx "$tmp"/nets/squeeze.onnx
status=$?
[ $status = 0 ] || bad
grep '^|' "$tmp/o" | sort -u >"$out.cudnn"
sed 's/^| \([^:]*\): .* | \(.*\) |$/\1|\2/' "$out.cudnn" | awk -F '|' '
    { graphs[$1] }
    $2 ~ /^engine/ {
        split($2, part, /[ ,]+/)
        taken[$1]++
        if (!(($1, part[2]) in seen)) {
            seen[$1, part[2]]
            engines[$1] = engines[$1] " " part[2]
        }
        if (part[4] + 0 > most[$1]) most[$1] = part[4] + 0
    }
    $2 !~ /^engine/ { refused[$1]++ }
    END {
        for (g in graphs)
            printf "| %s | %d | %d |%s | %.1f |\n", g, taken[g], refused[g],
                   engines[g], most[g] / 1048576 | "sort"
    }' >>"$out"
[ $status = 0 ] || echo "| all | | | $(why $status) | |" >>"$out"
if grep -q '| none of' "$out.cudnn"; then
    printf '\nRefused:\n\n' >>"$out"
    sed -n 's/^| \(.*\) | none of.*/- \1/p' "$out.cudnn" | head -n 20 >>"$out"
fi
{
    echo
    echo "$([ $failed = 0 ] && echo "All passed" || echo "**$failed failed**"), $(($(date +%s) - begin)) s."
} >>"$out"
cat "$out"
[ $failed = 0 ]
