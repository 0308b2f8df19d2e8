#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the container image quern:latest with whichever of buildah, podman and
# docker is there. With BASE=debootstrap, or with buildah where the base image
# cannot be pulled, the base is made by debootstrap from Debian's packages, so
# no registry is needed.
#
#   image.sh          quern:latest
#   image.sh cuda     quern:cuda, from NVIDIA's images: CUDA_DEVEL to build on,
#                     CUDA_RUNTIME to run on, CUDA_ARCHS="80 90" for fewer cards
set -eu
cd "$(dirname "$0")/.."
base=${BASE:-docker.io/library/debian:12-slim}

say() { echo "image: $*" >&2; }

case ${1:-} in
    "") tag=${TAG:-quern:latest} file=deploy/Containerfile ;;
    cuda) tag=${TAG:-quern:cuda} file=deploy/Containerfile.cuda ;;
    *) say "no image '$1' (nothing, or cuda)"
       exit 2 ;;
esac

# The arguments that are set; the file has defaults for the others.
with_cuda() {
    set --
    [ -z "${CUDA_DEVEL:-}" ] || set -- "$@" --build-arg "CUDA_DEVEL=$CUDA_DEVEL"
    [ -z "${CUDA_RUNTIME:-}" ] || set -- "$@" --build-arg "CUDA_RUNTIME=$CUDA_RUNTIME"
    [ -z "${CUDA_ARCHS:-}" ] || set -- "$@" --build-arg "CUDA_ARCHS=$CUDA_ARCHS"
    if command -v buildah >/dev/null; then
        say "with buildah"
        set -- buildah bud --isolation "${ISOLATION:-chroot}" --format docker "$@"
    elif command -v podman >/dev/null; then
        say "with podman"
        set -- podman build --format docker "$@"
    else
        say "with docker"
        set -- docker build "$@"
    fi
    "$@" -f "$file" -t "$tag" .
}

with_buildah() {
    if [ "$base" != debootstrap ] && ! buildah pull -q "$base" >/dev/null 2>&1; then
        say "cannot pull $base, making a base with debootstrap"
        base=debootstrap
    fi
    if [ "$base" = debootstrap ]; then
        base=localhost/quern-base:bookworm
        buildah inspect --type image "$base" >/dev/null 2>&1 ||
            sh deploy/image-debootstrap.sh "$base"
    fi
    # where user namespaces or overlays are not allowed, these still work
    buildah bud --isolation "${ISOLATION:-chroot}" --format docker \
        --build-arg "BASE=$base" -f "$file" -t "$tag" .
}

have() { command -v "$1" >/dev/null; }
if [ "${1:-}" = cuda ] && { have buildah || have podman || have docker; }; then
    with_cuda
elif have buildah; then
    say "with buildah"
    with_buildah
elif have podman; then
    say "with podman"
    podman build --format docker --build-arg "BASE=$base" \
        -f "$file" -t "$tag" .
elif have docker; then
    say "with docker"
    docker build --build-arg "BASE=$base" -f "$file" -t "$tag" .
else
    say "none of buildah, podman and docker is here;"
    say "sh deploy/install-deps.sh image installs buildah"
    exit 1
fi
gpu=
[ "${1:-}" != cuda ] || gpu="--device nvidia.com/gpu=all "
say "built $tag; run it with: podman run $gpu--read-only -p 8000:8000 $tag"
