#!/usr/bin/env bash
# Writes devcluster/versions/⟨minor⟩.mod and .sum, from which the control plane of a release of Kubernetes is built: module.sh 1.35.3
# A module of the release that the proxy does not have is taken from another patch: module.sh 1.31.9 k8s.io/cloud-provider@v0.31.10
set -euo pipefail
release=$1
minor=${release%.*}
staging=v0.${release#1.}
cd "$(dirname "$0")/../../devcluster"
answer=$(go mod download -json "k8s.io/kubernetes@v$release") || { echo "$answer" >&2; exit 1; }
dir=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$answer")
of() { sed -n "s|^\s$1 \(v[^ ]*\).*|\1|p" "$dir/go.mod"; } # the version that Kubernetes requires
mkdir -p versions
{
	printf 'module ephor.invalid/ephor/devcluster\n\ngo 1.26.0\n\nrequire (\n'
	printf '\tgithub.com/spf13/cobra %s\n\tgo.etcd.io/etcd/server/v3 %s\n' "$(of github.com/spf13/cobra)" "$(of go.etcd.io/etcd/client/v3)"
	for m in cli-runtime component-base kubectl; do printf '\tk8s.io/%s %s\n' "$m" "$staging"; done
	printf '\tk8s.io/kubernetes v%s\n)\n\nreplace (\n' "$release"
	sed -n 's|.*=> ./staging/src/\(k8s.io/[a-z-]*\)$|\1|p' "$dir/go.mod" | sort -u | while read -r m; do
		version=$staging
		for other in "${@:2}"; do [ "${other%@*}" != "$m" ] || version=${other#*@}; done
		printf '\t%s => %s %s\n' "$m" "$m" "$version"
	done
	printf ')\n'
} >"versions/$minor.mod"
GOFLAGS= go mod tidy -modfile="versions/$minor.mod"
