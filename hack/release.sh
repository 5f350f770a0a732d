#!/bin/sh
# Writes all files of a release to build/release: programs for six platforms in archives with completions and manual pages, packages for
# Debian and RPM, the image and the chart as OCI layouts, the chart rendered as one manifest, lists of modules (SPDX), a provenance statement,
# a krew manifest, a Homebrew formula, install.sh and the digests of all of it. Needs Go and git, and no network once the modules are cached.
#
#   VERSION=1.2.3   version, required
#   KEY=FILE        also sign the digests and the provenance with this private key (PEM)
#   PUSH=HOST/PATH  also push the image to HOST/PATH/ephor and the chart to HOST/PATH/charts/ephor
#
# The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
: "${VERSION:?VERSION is required, as in: make release VERSION=1.2.3}"
export VERSION
hack/programs.sh build/programs darwin/amd64 darwin/arm64 linux/amd64 linux/arm64 windows/amd64 windows/arm64
. build/programs/build.env
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:--buildvcs=false}"
# shellcheck disable=SC2154 # build.env sets them
go run ./hack/image -version "$version" -revision "$revision" -time "$time" build/image \
	linux/amd64=build/programs/linux-amd64/ephor linux/arm64=build/programs/linux-arm64/ephor
root=$PWD
native=$root/build/programs/$(go env GOOS)-$(go env GOARCH)/ephor
# shellcheck disable=SC2154
REGISTRY=${PUSH:+${PUSH%%/*}} REGISTRY=${REGISTRY:-ghcr.io} VERSION=$version hack/manifests.sh build/install.yaml
go build -C hack/tools/release -o "$root/build/release-tool" .
build/release-tool -source "$root" -programs build/programs -image build/image -manifest build/install.yaml -ephor "$native" \
	-version "$version" -revision "$revision" -time "$time" build/release
[ -z "${KEY:-}" ] || build/release-tool sign -key "$KEY" build/release
[ -z "${PUSH:-}" ] || build/release-tool push -to "$PUSH" -version "$version" build/release
ls -l build/release
