#!/usr/bin/env bash
# Writes devcluster/versions/⟨minor⟩.mod and .sum, from which the control plane of a release of Kubernetes is built: module.sh 1.35.3
set -euo pipefail
release=$1
minor=${release%.*}
staging=v0.${release#1.}
cd "$(dirname "$0")/../../devcluster"
dir=$(go mod download -json "k8s.io/kubernetes@v$release" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
etcd=$(sed -n 's|^\sgo.etcd.io/etcd/client/v3 \(v[^ ]*\).*|\1|p' "$dir/go.mod")
mkdir -p versions
{
	printf 'module ephor.invalid/ephor/devcluster\n\ngo 1.26.0\n\nrequire (\n'
	printf '\tgithub.com/spf13/cobra v1.10.2\n\tgo.etcd.io/etcd/server/v3 %s\n' "$etcd"
	for m in cli-runtime component-base kubectl; do printf '\tk8s.io/%s %s\n' "$m" "$staging"; done
	printf '\tk8s.io/kubernetes v%s\n)\n\nreplace (\n' "$release"
	sed -n 's|.*=> ./staging/src/\(k8s.io/[a-z-]*\)$|\1|p' "$dir/go.mod" | sort -u | while read -r m; do printf '\t%s => %s %s\n' "$m" "$m" "$staging"; done
	printf ')\n'
} >"versions/$minor.mod"
GOFLAGS= go mod tidy -modfile="versions/$minor.mod"
