#!/usr/bin/env bash
# Runs a command of this repository on a bare machine: Debian's base system with git and make, this machine's Go, a fresh clone of
# the commit that is checked out, an ordinary user, and no network but loopback. Needs root and debootstrap; run by hand.
#
#   hack/bare.sh                          make test
#   hack/bare.sh make demo ARGS=--once
#
#   BARE_ROOT   folder of the system, which debootstrap creates if it does not exist (default /var/tmp/ephor-bare)
#   BARE_CACHE  "none" compiles everything; by default Go's build cache of this machine is read, and not written
#
# Modules come from this machine's module cache, which is filled first, so no module proxy is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
root=${BARE_ROOT:-/var/tmp/ephor-bare}
[ $# -gt 0 ] || set -- make test
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null 2>&1; then
  echo "hack/bare.sh: needs root, and Debian's package debootstrap" >&2
  exit 1
fi
if [ ! -d "$root" ]; then
  debootstrap --variant=minbase --include=git,make stable "$root.new"
  mv "$root.new" "$root"
fi

goroot=$(go env GOROOT) modules=$(go env GOMODCACHE) cache=$(go env GOCACHE)
for module in . hack/tools hack/tools/helm hack/tools/promql hack/tools/release hack/tools/releasecheck hack/tools/site devcluster; do
  go mod download -C "$module"
done
# The repository is cloned here, since that reads files of this machine.
rm -rf "$root/home/bare"
mkdir -p "$root/home/bare" "$root/etc"
git clone -q --no-hardlinks "$source" "$root/home/bare/ephor"
git -C "$root/home/bare/ephor" checkout -q "$(git rev-parse HEAD)"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts" # an installed system has this file
grep -q '^bare:' "$root/etc/passwd" || echo 'bare:x:4242:4242::/home/bare:/bin/bash' >>"$root/etc/passwd"
chown -R 4242:4242 "$root/home/bare"

export source root goroot modules cache
export BARE_CACHE=${BARE_CACHE:-}
# The command has separate namespaces for mounts, processes and the network, so nothing remains when it ends.
exec unshare --mount --pid --fork --net --kill-child bash -euo pipefail -c '
  ip link set lo up
  # at mounts a folder of this machine at the same path, with an overlay, so that it is not written to.
  at() {
    mkdir -p "$root$1" "$layers/$2/upper" "$layers/$2/work"
    chmod 0777 "$layers/$2/upper"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$layers/$2/upper,workdir=$layers/$2/work" "$root$1"
  }
  layers=$(mktemp -d)
  mount -t tmpfs tmpfs "$layers"
  for dir in "$modules" "$cache"; do # an ordinary user may pass
    while [ "$dir" != / ]; do dir=$(dirname "$dir"); mkdir -p "$root$dir"; chmod o+x "$root$dir"; done
  done
  at "$goroot" goroot
  at "$modules" modules
  if [ "$BARE_CACHE" = none ]; then cache=/home/bare/.cache/go-build; else at "$cache" cache; chmod o+rwx "$root$cache" "$root$cache"/??; fi # files stay where they are
  mount -t proc proc "$root/proc"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  mount --rbind /dev "$root/dev"
  exec chroot --groups= --userspec=4242:4242 "$root" /usr/bin/env -i HOME=/home/bare USER=bare PATH="$goroot/bin:/usr/bin:/bin" \
    GOMODCACHE="$modules" GOCACHE="$cache" GOPROXY=off GOTOOLCHAIN=local EPHOR_E2E="${EPHOR_E2E:-}" \
    bash -c "cd /home/bare/ephor && exec \"\$@\"" bare "$@"
' bare "$@"
