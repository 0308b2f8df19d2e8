#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# End to end: the real binary, a real socket, curl. Each check prints a line
# only if it fails; the last line counts them.
#
#   run.sh BUILD/quern [name of one part]
set -u
quern=$(realpath "${1:-build/quern}")
only=${2:-}
cd "$(dirname "$0")/../.."
testdata=${TESTDATA:-/usr/share/libonnx-testdata/data}
tmp=$(mktemp -d)
passed=0
failed=0
pid=
port=
patience=300 # tenths of a second until a server is ready
# images of a large request; instrumented builds take fewer
n_images=${IMAGES:-6000}
# an image takes 5.4 KB of arena, inputs and outputs
room_for_one=$((n_images * 9300))
room_for_none=$((n_images * 4000))

cleanup() {
    [ -n "$pid" ] && kill -KILL "$pid" 2>/dev/null
    rm -rf "$tmp"
}
[ "${KEEP:-}" ] || trap cleanup EXIT INT TERM

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAILED $part: $*"
}
# check "what" command...: the command must succeed
check() {
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then pass; else fail "$what"; fi
}
# same "what" got wanted
same() {
    if [ "$2" = "$3" ]; then pass; else fail "$1: got '$2', wanted '$3'"; fi
}
# has "what" text part
has() {
    case $2 in
        *"$3"*) pass ;;
        *) fail "$1: '$(printf %.300s "$2")' lacks '$3'" ;;
    esac
}

# start flags...: a server on a free port over $tmp/models, ready
start() {
    "$quern" serve --models "$tmp/models" --port 0 "$@" 2>"$tmp/log" &
    pid=$!
    n=0
    while [ $n -lt "$patience" ]; do
        port=$(sed -n 's/.*on http:\/\/[^"]*:\([0-9]*\), .*/\1/p' "$tmp/log")
        [ -n "$port" ] && [ "$(code /readyz)" = 200 ] && return 0
        kill -0 "$pid" 2>/dev/null || break
        n=$((n + 1))
        sleep 0.1
    done
    fail "the server did not become ready: $(tail -n 2 "$tmp/log")"
    return 1
}
stop() {
    kill -TERM "$pid" 2>/dev/null
    wait "$pid"
    status=$?
    pid=
    same "exit status after SIGTERM" "$status" 0
    # sanitizers write to stderr too
    if grep -q 'ERROR: \|WARNING: ThreadSanitizer\|runtime error' "$tmp/log"; then
        fail "the log has a sanitizer's report"
        grep -A 12 'ERROR: \|WARNING: ThreadSanitizer\|runtime error' "$tmp/log" |
            head -n 40
    fi
}
url() { echo "http://127.0.0.1:$port$1"; }
# body of the answer
get() {
    path=$1
    shift
    curl -sS -m 60 "$@" "$(url "$path")"
}
# status of the answer
code() {
    path=$1
    shift
    curl -s -m 60 -o /dev/null -w '%{http_code}' "$@" "$(url "$path")"
}
# all of it, with headers
whole() {
    path=$1
    shift
    curl -sS -m 60 -i "$@" "$(url "$path")" | tr -d '\r'
}
infer=/v1/models/digits:infer
# until a request has all its bytes and is being answered
wait_inferring() {
    n=0
    while [ $n -lt 200 ]; do
        case $(get /v1/status) in *'"inferring":0'*) ;; *) return ;; esac
        n=$((n + 1))
        sleep 0.02
    done
    fail "no request began"
}

# a request for digits with $1 images
images() {
    awk -v n="$1" 'BEGIN {
        printf "{\"inputs\":[{\"name\":\"image\",\"datatype\":\"FP32\",\"shape\":[%d,1,8,8],\"data\":[", n
        for (i = 0; i < n * 64; i++) printf "%s%d", i ? "," : "", (i * 7) % 17
        printf "]}]}" }'
}

mkdir -p "$tmp/models/abs/1" "$tmp/models/broken/1" "$tmp/models/sums/1" \
    "$tmp/models/sums/3" "$tmp/models/range/1"
cp -r models/examples/digits models/examples-split/mlp "$tmp/models/"
cp "$testdata/node/test_abs/model.onnx" "$tmp/models/abs/1/"
cp "$testdata/node/test_range_int32_type_negative_delta/model.onnx" "$tmp/models/range/1/"
cp "$testdata/node/test_add/model.onnx" "$tmp/models/sums/1/"
cp "$testdata/node/test_add/model.onnx" "$tmp/models/sums/3/"
echo '{"versions": "all"}' >"$tmp/models/sums/config.json"
echo "not a model" >"$tmp/models/broken/1/model.onnx"

part_server() {
    start || return
    same "healthz" "$(get /healthz)" '{"live":true}'
    same "readyz" "$(get /readyz)" '{"ready":true}'
    has "index" "$(whole /)" 'Content-Type: text/html'
    has "no outside requests" "$(whole /)" "default-src 'self'"
    has "script" "$(whole /console.js)" 'text/javascript'
    has "openapi" "$(get /openapi.yaml)" 'openapi: 3'
    has "metrics" "$(get /metrics)" 'quern_memory_bytes{class="static"}'
    has "status" "$(get /v1/status)" '"by_class"'
    has "HEAD" "$(curl -sI "$(url /healthz)" | tr -d '\r')" 'Content-Length: 13'
    same "HEAD has no body" "$(curl -s -m 5 -I -o /dev/null -w '%{size_download}' "$(url /healthz)")" 0
    has "OPTIONS" "$(whole $infer -X OPTIONS)" 'Allow: POST, OPTIONS'
    has "405" "$(whole $infer)" 'HTTP/1.1 405'
    has "405 has Allow" "$(whole $infer)" 'Allow: POST, OPTIONS'
    has "405 is JSON" "$(whole $infer)" 'Content-Type: application/json
'
    same "DELETE" "$(code /v1/models -X DELETE)" 405
    same "unknown path" "$(code /nothing)" 404
    same "bad escape" "$(code /v1/models/%zz)" 400
    same "zero byte" "$(code /v1/models/a%00b)" 400
    has "request id" "$(whole /healthz -H 'X-Request-Id: seven')" 'X-Request-Id: seven'
    has "traceparent" "$(whole /healthz -H 'traceparent: 00-ab-cd-01')" 'traceparent: 00-ab-cd-01'
    check "healthcheck" "$quern" healthcheck "$(url /readyz)"
    stop
    "$quern" healthcheck "$(url /readyz)" >/dev/null 2>&1
    same "healthcheck of nobody" $? 1
}

part_models() {
    start || return
    list=$(get /v1/models)
    has "a broken model has a reason" "$list" '"id":"broken","required":false,"versions":[{"version":"1","state":"FAILED","reason":"'
    has "the others serve" "$list" '"id":"abs","required":false,"versions":[{"version":"1","state":"READY"'
    case $list in *"$tmp"*) fail "the list shows a path" ;; *) pass ;; esac
    same "unknown model" "$(code /v1/models/nobody)" 404
    same "broken model" "$(code /v1/models/broken)" 503
    has "broken model says why" "$(get /v1/models/broken:infer -d '{}')" 'failed to load'
    has "metadata" "$(get /v1/models/digits)" '"inputs":[{"name":"image","datatype":"FP32","shape":[-1,1,8,8]'
    sum=$(sha256sum models/examples/digits/1/model.onnx | cut -d ' ' -f 1)
    has "digest" "$(get /v1/models/digits)" "\"sha256\":\"$sum\""
    has "highest version" "$(get /v1/models/sums)" '"version":"3","inputs"'
    has "a version" "$(get /v1/models/sums/versions/1)" '"version":"1","inputs"'
    same "no such version" "$(code /v1/models/sums/versions/2)" 404
    has "graph" "$(get /v1/models/digits/graph)" '"operator":"Conv"'
    check "example as curl line" sh -c "$(get /v1/models/digits/example |
        sed 's/.*"curl":"\(.*\)"}$/\1/; s/\\"/"/g') | grep -q '\"model_name\":\"digits\"'"
    has "a model over two ranks" "$(get /v1/models/mlp:infer -d @models/examples-split/mlp/request.json)" \
        '"name":"answer","datatype":"FP32","shape":[1,6]'
    has "memory" "$(get /v1/models/digits/memory)" '"lower_bound":'
    stop
    "$quern" serve --models "$tmp/models" --port 0 --require broken 2>"$tmp/log" &
    pid=$!
    sleep 1
    port=$(sed -n 's/.*on http:\/\/[^"]*:\([0-9]*\), .*/\1/p' "$tmp/log")
    has "a required model that is broken" "$(whole /readyz)" 'HTTP/1.1 503'
    stop
    "$quern" serve --models "$tmp/models" --port 0 --require nobody 2>/dev/null
    same "a required model that is not there" $? 1
}

part_infer() {
    start || return
    has "the example is a seven" "$(get $infer -d @models/examples/digits/request.json)" '"data":[7]'
    has "server timing" "$(whole $infer -d @models/examples/digits/request.json)" 'Server-Timing: queue;dur='
    zeros=$(get /v1/models/abs/example?raw=true)
    has "generated example" "$(get /v1/models/abs:infer -d "$zeros")" '"shape":[3,4,5],"data":[0.0,'
    line='{"inputs":{"x":[[[-1,2,-3,4,-5],[0,0,0,0,0],[0,0,0,0,0],[0,0,0,0,0]],[[0,0,0,0,0],[0,0,0,0,0],[0,0,0,0,0],[0,0,0,0,0]],[[0,0,0,0,0],[0,0,0,0,0],[0,0,0,0,0],[0,0,0,0,-0.5]]]}}'
    has "named" "$(get /v1/models/abs:infer -d "$line")" '"data":[1.0,2.0,3.0,4.0,5.0,'
    single=$(echo "$line" | sed 's/{"x":\(.*\)}}/\1}/')
    has "single" "$(get /v1/models/abs:infer -d "$single")" '"data":[1.0,2.0,3.0,4.0,5.0,'
    has "nested answer" "$(get '/v1/models/abs:infer?nested=true' -d "$line")" '"data":[[[1.0,2.0,3.0,4.0,5.0],['
    nan=$(echo "$line" | sed 's/-1,2/NaN,"-Infinity"/')
    has "NaN as string" "$(get /v1/models/abs:infer -d "$nan")" '"data":["NaN","Infinity",'
    has "NaN as token" "$(get '/v1/models/abs:infer?nan=token' -d "$nan")" '"data":[NaN,Infinity,'
    has "id" "$(get /v1/models/abs:infer -d "$(echo "$line" | sed 's/^{/{"id":"x7",/')")" '"id":"x7"'
    has "one version" "$(get /v1/models/sums/versions/1:infer -d "$(get /v1/models/sums/versions/1/example?raw=true)")" '"model_version":"1"'
    has "chosen output" "$(get $infer -d "$(sed 's/}$/,"outputs":[{"name":"digit"}]}/' models/examples/digits/request.json)")" '"outputs":[{"name":"digit"'
    has "validate" "$(get /v1/models/digits:validate -d @models/examples/digits/request.json)" '"valid":true'
    has "chunked" "$(get $infer -H 'Transfer-Encoding: chunked' -d @models/examples/digits/request.json)" '"data":[7]'
    images $((n_images * 2)) >"$tmp/many"
    same "large body, with 100-continue" "$(code $infer --data-binary "@$tmp/many" -H 'Expect: 100-continue')" 200
    same "large body, chunked" "$(code $infer --data-binary "@$tmp/many" -H 'Transfer-Encoding: chunked')" 200
    # x-npy: magic, version 1.0, header of 118 bytes, 60 floats
    head="{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, 5), }"
    { printf '\223NUMPY\001\000v\000'; printf '%-117s\n' "$head"; head -c 240 /dev/zero; } >"$tmp/x.npy"
    curl -sS -m 60 -H 'Content-Type: application/x-npy' -H 'Accept: application/x-npy' \
        --data-binary "@$tmp/x.npy" -o "$tmp/y.npy" "$(url /v1/models/abs:infer)"
    same "npy in and out" "$(tail -c 240 "$tmp/y.npy" | tr -d '\000' | wc -c)" 0
    has "npy header" "$(tr -d '\000' <"$tmp/y.npy" | head -c 100)" "'descr': '<f4'"
    has "phases are measured" "$(get /metrics)" 'quern_phase_seconds_count{model="digits",phase="compute"}'
    has "leases are zero" "$(get /v1/status)" '"leases":0'
    stop
    has "a line a request" "$(grep '"model":"digits"' "$tmp/log" | head -n 1)" '"compute_ms":'
}

part_errors() {
    start --max-body 64K --max-depth 20 || return
    # body, then what the answer must say
    while IFS='|' read -r body wanted; do
        answer=$(whole /v1/models/abs:infer --data-binary "$body")
        has "400 for $body" "$answer" 'HTTP/1.1 400'
        has "message for $body" "$answer" "$wanted"
    done <<ROWS
|byte 0
{|byte 1
[]|"code":
{"inputs":[]}|input 'x' is missing
{}|no \"inputs\"
{"inputs":{"y":[1]}}|no input 'y'
{"inputs":[[1,2],[3]]}|row 1 has 1 elements, row 0 has 2
{"inputs":[[1,2],[3,4]]}|rank is 2, not 3
{"inputs":[{"name":"x","shape":[3,4,5],"datatype":"FP32","data":[1]}]}|"code":"SHAPE"
{"inputs":[{"name":"x","shape":[3,-4,5],"datatype":"FP32","data":[1]}]}|"code":"SHAPE"
{"inputs":[{"name":"x","shape":[16,1152921504606846977],"datatype":"FP32","data":[1]}]}|"code":
{"inputs":[{"name":"x","shape":[1],"datatype":"FP33","data":[1]}]}|FP33
{"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[1]}]}|the model takes FP32
{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":["a"]}]}|"code":
{"inputs":[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]}|"code":
ROWS
    has "the error is JSON, exactly" "$(whole /v1/models/abs:infer -d '{')" 'Content-Type: application/json
'
    printf '{"inputs":"\377"}' >"$tmp/latin"
    same "not UTF-8" "$(code /v1/models/abs:infer --data-binary "@$tmp/latin")" 400
    head -c 50000 /dev/urandom >"$tmp/garbage"
    same "garbage" "$(code /v1/models/abs:infer --data-binary "@$tmp/garbage")" 400
    same "a body without an end" "$(code /v1/models/abs:infer -m 5 -H 'Transfer-Encoding: gzip' -d '{}')" 415
    same "two lengths" "$(code /v1/models/abs:infer -m 5 -H 'Content-Length: 2' -H 'content-length: 3' -d '{} ')" 400
    same "the whole URL as target" "$(code /healthz --request-target http://x/healthz)" 200
    has "a zero byte in the id" "$(get /v1/models/abs:infer -d '{"id":"\u0000","inputs":[]}')" "only allowed in a tensor's data"
    same "gzip" "$(code /v1/models/abs:infer -H 'Content-Encoding: gzip' -d '{}')" 415
    same "bad deadline" "$(code /v1/models/abs:infer -H 'X-Quern-Deadline-Ms: soon' -d '{}')" 400
    same "unknown model" "$(code /v1/models/nobody:infer -d '{}')" 404
    head -c 100000 /dev/zero >"$tmp/long"
    long=$(whole /v1/models/abs:infer --data-binary "@$tmp/long")
    has "413" "$long" 'HTTP/1.1 413'
    has "413 has both numbers" "$long" '100000 bytes, the limit is 65536'
    same "413, chunked" "$(code /v1/models/abs:infer --data-binary "@$tmp/long" -H 'Transfer-Encoding: chunked')" 413
    head -c 3000000 /dev/zero >"$tmp/longer"
    same "413 instead of 100-continue" "$(code /v1/models/abs:infer --data-binary "@$tmp/longer")" 413
    # too long even to be read and dropped: answered before it comes
    same "413 at once" "$(code /v1/models/abs:infer -m 5 -H 'Expect:' -H 'Content-Length: 99999999999' -d x)" 413
    same "the server goes on" "$(code /healthz)" 200
    has "bodies are given back" "$(get /v1/status)" '"bodies":0'
    stop
}

part_memory() {
    images $n_images >"$tmp/big"
    images $((n_images / 30)) >"$tmp/small"
    # room for one large request, not for two
    start --memory-budget $room_for_one --queue 2 --max-wait 60s || return
    has "fits once" "$(get $infer --data-binary "@$tmp/big" 2>/dev/null | head -c 200)" '"outputs"'
    i=0
    while [ $i -lt 8 ]; do
        (code $infer --data-binary "@$tmp/big" >"$tmp/code.$i") &
        eval "job$i=$!"
        i=$((i + 1))
    done
    i=0
    while [ $i -lt 8 ]; do
        eval "wait \$job$i"
        i=$((i + 1))
    done
    codes=$(cat "$tmp"/code.*)
    case $codes in *429*) pass ;; *) fail "nobody got 429: $codes" ;; esac
    case $codes in *200*) pass ;; *) fail "nobody got 200: $codes" ;; esac
    has "refused ones are logged with a reason" "$(grep '"status":429' "$tmp/log" | head -n 1)" '"reason":"'
    has "leases are zero" "$(get /v1/status)" '"leases":0'
    stop
    start --memory-budget $room_for_one --max-wait 1ms || return
    i=0
    while [ $i -lt 4 ]; do
        (whole $infer --data-binary "@$tmp/big" 2>/dev/null | head -c 600 >"$tmp/answer.$i") &
        eval "job$i=$!"
        i=$((i + 1))
    done
    i=0
    while [ $i -lt 4 ]; do
        eval "wait \$job$i"
        i=$((i + 1))
    done
    has "503 after the longest wait" "$(cat "$tmp"/answer.*)" 'HTTP/1.1 503'
    has "503 says when" "$(cat "$tmp"/answer.*)" 'Retry-After: '
    stop
    start --memory-budget $room_for_none || return
    never=$(whole $infer --data-binary "@$tmp/big" -H 'Expect:')
    has "what can never fit" "$never" 'HTTP/1.1 400'
    has "with both numbers" "$never" "the budget of $room_for_none bytes"
    same "a smaller one does" "$(code $infer --data-binary "@$tmp/small")" 200
    stop
    # the answer fits, and the outputs do, but not both
    start --memory-budget 16M || return
    text=$(whole /v1/models/range:infer -d '{"inputs":{"start":0,"limit":1200000,"delta":1}}' | head -c 1000)
    has "an answer that can never fit" "$text" 'HTTP/1.1 400'
    has "an answer, with both numbers" "$text" 'the budget of 16777216 bytes'
    stop
    "$quern" serve --models "$tmp/models" --port 0 --memory-budget 60K \
        --require digits 2>"$tmp/log" &
    pid=$!
    sleep 1
    has "a model that does not fit is refused at load" "$(cat "$tmp/log")" 'model digits version 1 failed: '
    kill -KILL $pid
    wait $pid 2>/dev/null
    pid=
}

part_deadline() {
    images $n_images >"$tmp/big"
    start || return
    code $infer --data-binary "@$tmp/big" >/dev/null
    late=$(whole $infer -H 'X-Quern-Deadline-Ms: 1' --data-binary "@$tmp/big")
    has "deadline" "$late" 'HTTP/1.1 504'
    has "deadline's code" "$late" '"code":"DEADLINE"'
    same "no deadline" "$(code $infer -H 'X-Quern-Deadline-Ms: 60000' --data-binary "@$tmp/big")" 200
    stop
}

part_leaving() {
    images $((n_images * 7)) >"$tmp/big"
    leave 30s
    leave 1ms # the longest wait is over when the client leaves
}

leave() {
    start --half-close-cancels --max-wait "$1" || return
    curl -s -o /dev/null --data-binary "@$tmp/big" "$(url $infer)" &
    job=$!
    wait_inferring
    kill -KILL $job
    wait $job 2>/dev/null
    n=0
    while [ $n -lt 50 ] && ! grep -q '"status":499' "$tmp/log"; do
        n=$((n + 1))
        sleep 0.1
    done
    has "a client that left, --max-wait $1" "$(grep '"status":499' "$tmp/log")" '"code":"CANCELLED"'
    same "the next one is served" "$(code $infer -d @models/examples/digits/request.json)" 200
    has "leases are zero" "$(get /v1/status)" '"leases":0'
    stop
}

part_drain() {
    images $n_images >"$tmp/big"
    start || return
    code $infer --data-binary "@$tmp/big" >/dev/null
    i=0
    while [ $i -lt 6 ]; do
        (code $infer --data-binary "@$tmp/big" >"$tmp/code.$i") &
        eval "job$i=$!"
        i=$((i + 1))
    done
    wait_inferring
    sleep 0.2
    stop
    i=0
    while [ $i -lt 6 ]; do
        eval "wait \$job$i"
        same "request $i in flight at SIGTERM" "$(cat "$tmp/code.$i")" 200
        i=$((i + 1))
    done
    has "says so" "$(cat "$tmp/log")" 'all requests are answered'
    # a second signal
    start || return
    code $infer --data-binary "@$tmp/big" >/dev/null
    (code $infer --data-binary "@$tmp/big" >/dev/null) &
    job=$!
    sleep 0.1
    kill -TERM $pid
    sleep 0.02
    kill -TERM $pid 2>/dev/null
    wait $pid
    status=$?
    pid=
    wait $job
    case $status in 143 | 0) pass ;; *) fail "second signal: status $status" ;; esac
}

part_cli() {
    same "version" "$("$quern" version | cut -d ' ' -f 1)" quern
    check "help" "$quern" help
    for c in serve run inspect verify plan bench op healthcheck; do
        lines=$("$quern" $c --help | wc -l)
        [ "$lines" -le 40 ] && pass || fail "$c --help has $lines lines"
    done
    "$quern" serve --modles x 2>"$tmp/err"
    same "unknown flag" $? 2
    has "unknown flag" "$(cat "$tmp/err")" 'did you mean --models?'
    "$quern" serev 2>"$tmp/err"
    has "unknown command" "$(cat "$tmp/err")" "did you mean 'serve'?"
    echo '{"prot": 1}' >"$tmp/config.json"
    "$quern" serve --models "$tmp/models" --config "$tmp/config.json" 2>"$tmp/err"
    has "unknown key" "$(cat "$tmp/err")" 'did you mean port?'
    model=models/examples/digits/1/model.onnx
    has "inspect" "$("$quern" inspect $model)" 'not supported'
    has "inspect --json" "$("$quern" inspect $model --json)" '"lower_bound":'
    split=models/examples-split/mlp
    has "inspect of ranks" "$("$quern" inspect $split/1/rank0.onnx $split/1/rank1.onnx --json)" '"guard": 512'
    same "run of ranks" "$("$quern" run $split/1/rank0.onnx $split/1/rank1.onnx --made-up | cut -c 1-33)" \
        "$("$quern" run $split/whole.onnx --made-up | cut -c 1-33)"
    "$quern" run $split/1/rank0.onnx $split/whole.onnx --made-up 2>"$tmp/err"
    same "ranks that do not fit" $? 2
    has "ranks that do not fit" "$(cat "$tmp/err")" "node 'sum' has no counterpart"
    has "run" "$("$quern" run $model --shape 2x1x8x8 --output-dir "$tmp/out")" '[2, 10]'
    check "outputs are written" test -s "$tmp/out/probabilities.npy"
    has "bench" "$("$quern" bench $model --runs 20 --json)" '"p99_ms":'
    has "verify" "$("$quern" verify "$testdata/node/test_abs")" '1 passed, 0 failed, 0 skipped'
    has "verify --json" "$("$quern" verify "$testdata/node/test_abs" --json)" '"passed": 1'
    cp -r "$testdata/node/test_abs" "$tmp/wrong"
    cp "$testdata/node/test_add/test_data_set_0/output_0.pb" "$tmp/wrong/test_data_set_0/output_0.pb"
    "$quern" verify "$tmp/wrong" >"$tmp/out.txt"
    same "verify fails" $? 1
    has "verify says where" "$(cat "$tmp/out.txt")" "output 'y': index 0"
    echo "error: must be refused" >"$tmp/wrong/EXPECT"
    has "EXPECT error" "$("$quern" verify "$tmp/wrong")" '0 passed, 1 failed'
    echo "any answer" >"$tmp/wrong/EXPECT"
    has "EXPECT any" "$("$quern" verify "$tmp/wrong")" '1 passed, 0 failed'
    printf 'id,lower,upper,size\na,0,2,8\nb,1,3,8\nc,2,4,8\n' >"$tmp/plan.csv"
    has "plan" "$("$quern" plan "$tmp/plan.csv" --json)" '"lower_bound": 16, "peak": 16'
    "$quern" plan "$tmp/plan.csv" --capacity 15 >/dev/null
    same "plan --capacity" $? 1
    has "op" "$("$quern" op Relu --input "$tmp/out/probabilities.npy")" 'float [2, 10]'
    start || return
    has "bench over HTTP" "$("$quern" bench "$(url /v1/models/digits)" --runs 50 --concurrency 4 --json)" '"runs": 50'
    stop
}

for part in server models infer errors memory deadline leaving drain cli; do
    [ -n "$only" ] && [ "$only" != $part ] && continue
    part_$part
done
echo "e2e: $passed passed, $failed failed"
[ $failed = 0 ]
