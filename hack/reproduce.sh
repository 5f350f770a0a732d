#!/usr/bin/env bash
# Builds a release twice, in two fresh clones of the checked-out commit, and compares all files. Fails, and names the files, if some differ.
#
#   hack/reproduce.sh 1.2.3
#
#   PLATFORMS=LIST  only these platforms
#   CACHE=fresh     the second release compiles everything again, in a separate build cache
#   WORK=FOLDER     folder of the clones, which must not exist yet (default: a temporary one, which is deleted)
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD version=${1:?the version, as in: hack/reproduce.sh 1.2.3}
commit=$(git rev-parse HEAD)
if [ -n "${WORK:-}" ]; then
  mkdir "$WORK"
  work=$(cd "$WORK" && pwd)
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT INT TERM
fi
# The paths differ in length, since a path that is left in a file often changes its size, too.
for clone in first another/second; do
  mkdir -p "$(dirname "$work/$clone")"
  git clone -q --no-hardlinks "$source" "$work/$clone"
  git -C "$work/$clone" checkout -q "$commit"
  [ "$clone" = first ] || [ "${CACHE:-}" != fresh ] || export GOCACHE=$work/cache
  echo "== $clone: make release VERSION=$version"
  make -C "$work/$clone" release VERSION="$version"
  (cd "$work/$clone/build/release" && find . -type f | sort | xargs sha256sum) >"$work/$(basename "$clone").sums"
done
if ! diff "$work/first.sums" "$work/second.sums"; then
  echo "reproduce.sh: the release of commit $commit differs when it is built again" >&2
  exit 1
fi
echo "== $(wc -l <"$work/first.sums") files of release $version, commit $commit, are equal"
