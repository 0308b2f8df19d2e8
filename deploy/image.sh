#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the container image quern:latest with whichever of buildah, podman and
# docker is there. With BASE=debootstrap, or with buildah where the base image
# cannot be pulled, the base is made by debootstrap from Debian's packages, so
# no registry is needed.
set -eu
cd "$(dirname "$0")/.."
tag=${TAG:-quern:latest}
base=${BASE:-docker.io/library/debian:12-slim}

say() { echo "image: $*" >&2; }

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
        --build-arg "BASE=$base" -f deploy/Containerfile -t "$tag" .
}

if command -v buildah >/dev/null; then
    say "with buildah"
    with_buildah
elif command -v podman >/dev/null; then
    say "with podman"
    podman build --format docker --build-arg "BASE=$base" \
        -f deploy/Containerfile -t "$tag" .
elif command -v docker >/dev/null; then
    say "with docker"
    docker build --build-arg "BASE=$base" -f deploy/Containerfile -t "$tag" .
else
    say "none of buildah, podman and docker is here;"
    say "sh deploy/install-deps.sh image installs buildah"
    exit 1
fi
say "built $tag; run it with: podman run --read-only -p 8000:8000 $tag"
