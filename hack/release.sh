#!/bin/sh
# Writes all files of a release to build/release: programs for six platforms in archives with completions and manual pages, packages for
# Debian and RPM, the image and the charts as OCI layouts, the chart rendered as one manifest, lists of modules (SPDX), a provenance statement,
# a krew manifest, a Homebrew formula, install.sh and the digests of all of it. Needs Go and git, and no network once the modules are cached.
#
#   VERSION=1.2.3   version, required
#   KEY=FILE        also sign the digests and the provenance with this private key (PEM)
#   PUSH=HOST/PATH  also push the image to HOST/PATH/ephor and the charts to HOST/PATH/charts, and name that image in chart and manifest
#                   (default for both: EPHOR_REGISTRY in home.env)
#   PLATFORMS=LIST  only these platforms, with this machine's among them, as in: PLATFORMS="linux/amd64 darwin/arm64"
#   OUT=FOLDER      folder of the files (default build/release)
#
# The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
: "${VERSION:?VERSION is required, as in: make release VERSION=1.2.3}"
export VERSION
PLATFORMS=${PLATFORMS:-darwin/amd64 darwin/arm64 linux/amd64 linux/arm64 windows/amd64 windows/arm64}
OUT=${OUT:-build/release}
here=$(go env GOOS)/$(go env GOARCH)
case " $PLATFORMS " in
*" $here "*) ;;
*)
	echo "release.sh: PLATFORMS lacks $here, whose program prints the manual pages" >&2
	exit 1
	;;
esac
# shellcheck disable=SC2086 # a list
hack/programs.sh build/programs $PLATFORMS
. build/programs/build.env
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:--buildvcs=false}"
set --
for platform in $PLATFORMS; do
	case $platform in linux/*) set -- "$@" "$platform=build/programs/$(echo "$platform" | tr / -)/ephor" ;; esac
done
image=
if [ $# -gt 0 ]; then
	image=build/image
	# shellcheck disable=SC2154 # build.env sets them
	go run ./hack/image -version "$version" -revision "$revision" -time "$time" "$image" "$@"
fi
root=$PWD
native=$root/build/programs/$(echo "$here" | tr / -)/ephor
. ./home.env
registry=${PUSH:-$EPHOR_REGISTRY} repository=ephor
case $registry in */*) repository=${registry#*/}/ephor ;; esac
REGISTRY=${registry%%/*} REPOSITORY=$repository VERSION=$version hack/manifests.sh build/install.yaml
go build -C hack/tools/release -o "$root/build/release-tool" .
build/release-tool -source "$root" -programs build/programs -image "$image" -manifest build/install.yaml -ephor "$native" \
	-platforms "$PLATFORMS" -registry "$registry" -version "$version" -revision "$revision" -time "$time" "$OUT"
[ -z "${KEY:-}" ] || build/release-tool sign -key "$KEY" "$OUT"
[ -z "${PUSH:-}" ] || build/release-tool push -to "$PUSH" -version "$version" "$OUT"
ls -l "$OUT"
