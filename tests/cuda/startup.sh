#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the CUDA plug-in costs those who have no card: nothing is linked, without a
# driver nothing is opened, and the start takes as long as before.
#
#   startup.sh BUILD/quern
set -u
quern=$(realpath "${1:-build/quern}")
plugin=$(dirname "$quern")/libquern-cuda.so
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM
passed=0
failed=0
skipped=0
pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAILED startup: $*"
}
skip() {
    skipped=$((skipped + 1))
    echo "SKIP startup: $*"
}
unset LD_LIBRARY_PATH QUERN_PLUGIN_DIR
cuda='libcuda|libcublas|libcudnn|libnccl|libnvrtc'

# --- nothing of CUDA is linked
if ldd "$quern" | grep -E "$cuda|quern-cuda"; then
    fail "ldd shows a CUDA library"
else
    pass
fi

# the same program twice: alone, and with the plug-in beside it
mkdir -p "$tmp/alone" "$tmp/with"
cp "$quern" "$tmp/alone/quern"
cp "$quern" "$tmp/with/quern"
cp "$plugin" "$tmp/with/" || exit 1

# start N PROGRAM FLAGS...: milliseconds from exec until the model is ready, a line
# a start; each is ended by SIGTERM and has to end with 0
start() {
    python3 - "$@" <<'END'
import subprocess, sys, time
for _ in range(int(sys.argv[1])):
    at = time.monotonic()
    p = subprocess.Popen([*sys.argv[2:]], stderr=subprocess.PIPE)
    for line in p.stderr:
        if b"ready in" in line:
            print(f"{1000 * (time.monotonic() - at):.2f}")
            break
    p.terminate()
    p.stderr.read()
    if p.wait():
        sys.exit("the server failed")
END
}
serve="serve --models models/examples --port 0"

# --- no driver: nothing else is looked for
if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    skip "there is a driver here: what is opened without one"
    device=cpu
else
    device=cuda
    # the loader's own list of what it searches for
    LD_DEBUG=libs LD_DEBUG_OUTPUT="$tmp/ld" \
        start 1 "$tmp/with/quern" $serve --device cuda >/dev/null || fail "a start"
    if ! grep -hq 'find library=libcuda\.so\.1' "$tmp"/ld.*; then
        fail "the driver was not looked for"
    elif grep -hE "find library=.*($cuda|quern-cuda)" "$tmp"/ld.* |
        grep -v 'find library=libcuda\.so\.1'; then
        fail "the loader searched for more than the driver"
    else
        pass
    fi
    if ! command -v strace >/dev/null; then
        skip "strace is not here"
    elif ! strace -o /dev/null true 2>/dev/null; then
        skip "strace may not trace here"
    else
        start 1 strace -D -f -e trace=open,openat,execve -o "$tmp/trace" \
            "$tmp/with/quern" $serve --device cuda >/dev/null || fail "a traced start"
        if ! grep -q 'libcuda\.so\.1' "$tmp/trace"; then
            fail "the trace shows no look for the driver"
        elif grep -E "$cuda|quern-cuda" "$tmp/trace" | grep -v 'libcuda\.so\.1'; then
            fail "more than the driver was opened"
        else
            pass
        fi
    fi
fi

# --- the median of 21 starts; in turn, so that both see the same machine
: >"$tmp/alone.ms"
: >"$tmp/with.ms"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21; do
    for which in alone with; do
        start 1 "$tmp/$which/quern" $serve --device $device >>"$tmp/$which.ms" ||
            fail "start $i $which"
    done
done
median() { sort -n "$1" | sed -n 11p; }
a=$(median "$tmp/alone.ms")
b=$(median "$tmp/with.ms")
if [ "$(wc -l <"$tmp/alone.ms")" = 21 ] && [ "$(wc -l <"$tmp/with.ms")" = 21 ] &&
    awk -v a="$a" -v b="$b" 'BEGIN { d = b - a; exit !(d < 10 && d > -10) }'; then
    pass
else
    fail "median of 21 starts: $a ms alone, $b ms with the plug-in"
fi
echo "startup: $a ms alone, $b ms with the plug-in; $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
