#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A base image of Debian 12 from Debian's packages alone: needs root, buildah
# and debootstrap, and no registry.
#
#   image-debootstrap.sh NAME
set -eu
name=$1
if [ "$(id -u)" != 0 ]; then
    echo "image-debootstrap: debootstrap needs root" >&2
    exit 1
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# the mirror that this machine uses, or Debian's own
mirror=${MIRROR:-$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\) .*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)}
echo "image-debootstrap: Debian 12 into $name" >&2
debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >&2
cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || :
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/usr/share/doc/* \
    "$root"/usr/share/man/* "$root"/usr/share/locale/*
container=$(buildah from scratch)
buildah add -q "$container" "$root" / >/dev/null
buildah config --cmd /bin/sh "$container"
buildah commit -q "$container" "$name" >/dev/null
buildah rm "$container" >/dev/null
