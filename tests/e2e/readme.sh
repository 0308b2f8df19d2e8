#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The README keeps its word: its curl line answers the right digit, its list of
# operators is the program's, files and flags that it names exist.
#
#   readme.sh BUILD/quern
set -u
quern=$(realpath "${1:-build/quern}")
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
passed=0
failed=0
pid=
trap '[ -n "$pid" ] && kill -KILL "$pid" 2>/dev/null; rm -rf "$tmp"' EXIT INT TERM

# same "what" got wanted
same() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1: got '$2', wanted '$3'"
    fi
}

"$quern" serve --models models/examples --port 0 2>"$tmp/log" &
pid=$!
n=0
until port=$(sed -n 's/.*on http:\/\/[^"]*:\([0-9]*\), .*/\1/p' "$tmp/log") &&
        [ -n "$port" ] &&
        "$quern" healthcheck "http://127.0.0.1:$port/readyz" >/dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 300 ] || break
    sleep 0.1
done

# the lines that call the example, as they stand but for the port
grep -hE "^ *(\\$ )?curl .*127\.0\.0\.1:8000/v1/models/digits:infer" README.md |
    sed "s/^ *\(\\$ \)\{0,1\}//; s/127\.0\.0\.1:8000/127.0.0.1:$port/" >"$tmp/lines"
same "curl lines in the README" "$(wc -l <"$tmp/lines" | tr -d ' ')" 2
same "the first answers the digit" "$(sed -n 1p "$tmp/lines" | sh |
    sed -n 's/.*"name":"digit"[^}]*"data":\[\([0-9]*\)\].*/\1/p')" 7
# README breaks the long line of the answer
same "the second is refused with the printed error" \
    "$(sed -n 2p "$tmp/lines" | sh | tr -d ' \n')" \
    "$(sed -n '/^{"error"/,/}}$/p' README.md | tr -d ' \n')"

"$quern" op --list | cut -d ' ' -f 1 >"$tmp/have"
sed -n '/<!-- operators/,/<!-- end/p' README.md | grep -v '^<!--' | tr ' ' '\n' |
    grep . >"$tmp/said"
same "operators in the README only, or missing there" \
    "$(sort "$tmp/have" "$tmp/said" | uniq -u | tr '\n' ' ')" ''
same "their number" "$(sed -n 's/^\([0-9]*\) operators of the ONNX domain.*/\1/p' README.md)" \
    "$(wc -l <"$tmp/have" | tr -d ' ')"

for page in README.md models/README.md models/examples/README.md runtime/README.md \
        server/README.md tests/README.md deploy/README.md; do
    folder=$(dirname "$page")
    # links, and `code` that looks like a file of a folder
    for name in $(sed -n 's/](\([^)#]*\)[^)]*)/\n@\1\n/gp' "$page" | sed -n 's/^@//p' |
            grep -v '://') \
            $(grep -oE '`[a-z_]+(/[a-zA-Z_]+)+\.[a-z]+`' "$page" | tr -d '`'); do
        if [ ! -e "$folder/$name" ] && [ ! -e "$name" ]; then
            same "$page names a file" "$name" "one that exists"
        else
            passed=$((passed + 1))
        fi
    done
done

# every flag of serve that a page names
for flag in $(grep -ohE '`--[a-z-]+' README.md server/README.md deploy/README.md |
        tr -d '`' | sort -u); do
    for c in serve run inspect verify plan bench op; do
        "$quern" $c --help
    done | grep -qe " $flag\b" || {
        same "a flag" "$flag" "one that exists"
        continue
    }
    passed=$((passed + 1))
done

kill -TERM $pid
wait $pid
same "exit status" $? 0
pid=
echo "e2e: $passed passed, $failed failed"
[ $failed = 0 ]
