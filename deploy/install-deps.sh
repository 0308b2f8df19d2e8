#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install the Debian packages that Quern needs and that are missing, with apt,
# as root or through sudo. Says what it does; does nothing if nothing is missing.
#
#   install-deps.sh [build] [nvcc] [test] [cuda] [lint] [image]     default: build
#
# nvcc, cuda: what nvcc and the tests on emulated CUDA need of Debian. CUDA itself
# is installed by nothing here; README.md says where it comes from.
set -eu

build="gcc make curl libc6-dev libmicrohttpd-dev libjansson-dev libssl-dev"
test="libcmocka-dev libonnx-testdata"
nvcc="g++"
cuda="$nvcc python3 strace"
lint="clang"
image="buildah debootstrap"

wanted=""
for set in "${@:-build}"; do
    case $set in
        build) wanted="$wanted $build" ;;
        test) wanted="$wanted $test" ;;
        nvcc) wanted="$wanted $nvcc" ;;
        cuda) wanted="$wanted $cuda" ;;
        lint) wanted="$wanted $lint" ;;
        image) wanted="$wanted $image" ;;
        *) echo "install-deps: no set '$set' (build, nvcc, test, cuda, lint, image)" >&2
           exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "install-deps: no dpkg here; on other systems install what stands for" >&2
    echo "   $wanted" >&2
    exit 0
fi

missing=""
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || :)
    [ "$state" = installed ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
    exit 0
fi

as_root=""
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install-deps: missing:$missing" >&2
        echo "install-deps: neither root nor sudo; run as root: apt-get install$missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "install-deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# a list of packages that is a day old is good enough
if [ -z "$(find /var/lib/apt/lists -name '*_Packages*' -mtime -1 2>/dev/null)" ]; then
    $as_root apt-get update -q
fi
# shellcheck disable=SC2086
$as_root apt-get install -q -y --no-install-recommends $missing
