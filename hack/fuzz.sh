#!/usr/bin/env bash
# Runs every fuzz target of the main module, one after the other, for FUZZTIME each. It finds the targets in the
# files, so a new one needs no line here.
#
#   FUZZTIME  how long each runs (default 30s; "100x" is a number of inputs)
#   FUZZ      a regular expression over "folder target"; default all ("internal/seal", "FuzzParse$")
#   LIST=1    prints them and runs none
set -euo pipefail
cd "$(dirname "$0")/.."

# Nested modules (those with a go.mod of their own) are skipped.
targets=$(find . -name '*_test.go' -not -path './bin/*' -not -path './build/*' -not -path './devcluster/*' -not -path './hack/tools/*' \
  -exec grep -HoE '^func Fuzz[A-Za-z0-9_]*\([a-z]+ \*testing\.F\)' {} + |
  sed -E 's|^\./(.*)/[^/]*_test\.go:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | LC_ALL=C sort -u | { grep -E -- "${FUZZ:-.}" || true; })
if [ -z "$targets" ]; then
  echo "make fuzz: there is no fuzz target${FUZZ:+ that matches $FUZZ}" >&2
  exit 1
fi
if [ -n "${LIST:-}" ]; then
  echo "$targets"
  exit
fi
while read -r dir target; do
  echo "== $dir $target"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" "./$dir" </dev/null
done <<<"$targets"
