#!/usr/bin/env bash
# Lint: formatting, go vet and staticcheck over the main module, go vet over the nested ones' own code.
#
#   hack/lint.sh              everything
#   hack/lint.sh PACKAGE...   formatting, and these packages of the main module
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
  echo "not gofmt-clean (run gofmt -w):" >&2
  echo "$unformatted" >&2
  exit 1
fi
go vet "${@:-./...}"
# devcluster is one file over all of Kubernetes, which takes vet minutes: the end-to-end tests build it. The
# modules of Helm, chainsaw and releasecheck have no code. hack/signatures requires modules that nothing else does: it is vetted by hand.
[ $# -gt 0 ] || for module in hack/tools hack/tools/promql hack/tools/release hack/tools/site; do
  go vet -C "$module" ./...
done
go build -C hack/tools -o ../../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
bin/staticcheck "${@:-./...}"
