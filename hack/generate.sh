#!/bin/sh
# Regenerates what is derived from the code: the deep copies beside the Go types in api/, the CRDs in config/crds, the
# pages of docs/reference, the schemas of files in config/formats, the merge keys of the Kubernetes API types in internal/patch, and what is derived from
# the chart: its definitions (config/crds with fewer descriptions), its schema, the tables of its values in
# docs/start/install.md, and its renders for development control planes.
#
#   hack/generate.sh            in this checkout
#   hack/generate.sh DIR        the same below DIR (used by verify-generated.sh, which passes a copy of the checkout)
#
# The tools are those that hack/tools/go.mod pins; they are built into bin/tools.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=$(cd "${1:-$root}" && pwd)
tools=$root/bin/tools
mkdir -p "$tools"
go build -C "$root/hack/tools" -o "$tools/controller-gen" sigs.k8s.io/controller-tools/cmd/controller-gen
go build -C "$root/hack/tools" -o "$tools/crdgen" ./crdgen
"$root/hack/helm.sh"
cd "$target"
"$tools/controller-gen" object paths=./api/...
# Files of removed kinds are deleted.
rm -f config/crds/*.yaml
"$tools/crdgen" -out config/crds ./api/...
go run -C "$root" ./hack/reference -out "$target/docs/reference" -formats "$target/config/formats"
mkdir -p "$target/internal/patch"
go run -C "$root" ./hack/mergekeys >"$target/internal/patch/mergekeys.txt"
go run -C "$root" ./hack/chart -out "$target"
