#!/bin/sh
# Builds the program for amd64 and arm64 and writes build/image, an OCI image layout; no Docker daemon is needed.
#
#   VERSION=…   version (default: that of the chart)
#   PUSH=REF    also push it to registry/name:tag
#
# The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:--buildvcs=false}"
version=${VERSION:-$(sed -n 's/^appVersion: *//p' charts/ephor/Chart.yaml)}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# The commit's time, in UTC wherever it was made.
time=$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo 1970-01-01T00:00:00Z)
# The tag as in the Makefile: without it the linker keeps every method there is.
cli=github.com/ephor-dev/ephor/internal/cli
for arch in amd64 arm64; do
	echo "Building the program for linux/$arch ..."
	GOOS=linux GOARCH=$arch go build -tags grpcnotrace -trimpath -ldflags "-s -w -X $cli.version=$version -X $cli.commit=$revision -X $cli.buildTime=$time" \
		-o "build/linux-$arch/ephor" ./cmd/ephor
done
go run ./hack/image -version "$version" -revision "$revision" -time "$time" ${PUSH:+-push "$PUSH"} build/image \
	linux/amd64=build/linux-amd64/ephor linux/arm64=build/linux-arm64/ephor
