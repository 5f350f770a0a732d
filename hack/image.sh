#!/bin/sh
# Builds the program for amd64 and arm64 and writes build/image, an OCI image layout; no Docker daemon is needed.
#
#   VERSION=…   version (default: that of the chart)
#   PUSH=REF    also push it to registry/name:tag
#
# The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
hack/programs.sh build/programs linux/amd64 linux/arm64
. build/programs/build.env
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:--buildvcs=false}"
# shellcheck disable=SC2154 # build.env sets them
go run ./hack/image -version "$version" -revision "$revision" -time "$time" ${PUSH:+-push "$PUSH"} build/image \
	linux/amd64=build/programs/linux-amd64/ephor linux/arm64=build/programs/linux-arm64/ephor
