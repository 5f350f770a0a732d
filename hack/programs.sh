#!/bin/sh
# Builds the program for platforms, into ⟨folder⟩/⟨os⟩-⟨arch⟩/ephor, and writes version, revision and time of the build to ⟨folder⟩/build.env.
#
#   hack/programs.sh build/programs linux/amd64 windows/arm64
#
#   VERSION=…   version (default: that of the chart)
#
# The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
folder=$1
shift
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:--buildvcs=false}"
version=${VERSION:-$(sed -n 's/^appVersion: *//p' charts/ephor/Chart.yaml)}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# The commit's time in UTC.
time=$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo 1970-01-01T00:00:00Z)
. ./home.env
cli=$EPHOR_HOME/internal/cli
for platform in "$@"; do
	os=${platform%/*} arch=${platform#*/} suffix=
	[ "$os" != windows ] || suffix=.exe
	echo "Building the program for $platform ..." >&2
	# The tag as in the Makefile: without it the linker keeps all methods.
	GOOS=$os GOARCH=$arch go build -tags grpcnotrace -trimpath -ldflags "-s -w -X $cli.version=$version -X $cli.commit=$revision -X $cli.buildTime=$time" \
		-o "$folder/$os-$arch/ephor$suffix" ./cmd/ephor
done
printf 'version=%s\nrevision=%s\ntime=%s\n' "$version" "$revision" "$time" >"$folder/build.env"
