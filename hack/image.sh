#!/bin/sh
# Builds the program for amd64 and arm64 and writes build/image, an OCI image layout; no Docker daemon is needed.
#
#   VERSION=…   version (default: that of the chart)
#   PUSH=REF    also push it to registry/name:tag
#   PLATFORMS=… platforms of the image (default: linux/amd64 linux/arm64)
#
# The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
set -- ${PLATFORMS:-linux/amd64 linux/arm64}
hack/programs.sh build/programs "$@"
for platform in "$@"; do
	shift
	set -- "$@" "$platform=build/programs/$(echo "$platform" | tr / -)/ephor"
done
. build/programs/build.env
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:--buildvcs=false}"
# shellcheck disable=SC2154 # build.env sets them
go run ./hack/image -version "$version" -revision "$revision" -time "$time" ${PUSH:+-push "$PUSH"} build/image "$@"
