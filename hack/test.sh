#!/usr/bin/env bash
# The one gate. Runs every part, says what it does and how long it took, and stops at the first part that fails.
#
#   EPHOR_CONFORMANCE  folder of the conformance data (default ../shared/conformance); "none" runs without them
#   EPHOR_REFERENCE    folder of the language reference (default ../shared/reference)
#   EPHOR_UI           "none" runs without a browser
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

export EPHOR_CONFORMANCE=${EPHOR_CONFORMANCE:-$root/../shared/conformance}
export EPHOR_REFERENCE=${EPHOR_REFERENCE:-$root/../shared/reference}
if [ "$EPHOR_CONFORMANCE" != none ]; then
  for name in EPHOR_CONFORMANCE EPHOR_REFERENCE; do
    if [ ! -d "${!name}" ]; then
      echo "make test: there is no folder ${!name}: set $name to the folder of the data, or EPHOR_CONFORMANCE=none to run without" >&2
      exit 1
    fi
  done
  EPHOR_CONFORMANCE=$(cd "$EPHOR_CONFORMANCE" && pwd)
  EPHOR_REFERENCE=$(cd "$EPHOR_REFERENCE" && pwd)
fi

if ! command -v jq >/dev/null 2>&1; then
  echo "make test: there is no jq: install Debian's package jq, with which the commands of docs/rollout.md are run" >&2
  exit 1
fi
if [ "${EPHOR_UI:-}" != none ]; then
  for tool in chromium chromedriver; do
    if ! command -v "$tool" >/dev/null 2>&1; then
      echo "make test: there is no $tool: install Debian's packages chromium and chromium-driver, or set EPHOR_UI=none to run without a browser" >&2
      exit 1
    fi
  done
fi

started=$SECONDS
summary=()
part() {
  local name=$1 begin=$SECONDS
  shift
  echo "== $name"
  if ! "$@"; then
    echo "== $name: FAILED after $((SECONDS - begin)) s" >&2
    exit 1
  fi
  summary+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$name")")
}

# The race detector needs cgo, so a C compiler.
race=()
if command -v "${CC:-cc}" >/dev/null 2>&1; then
  race=(-race)
else
  echo "make test: no C compiler, so the unit tests run without the race detector"
fi
unit() {
  local packages
  packages=$(go list ./... | grep -vE '/(e2e|soak|conformance|robustness|internal/devcluster|charts)($|/)')
  # shellcheck disable=SC2086
  CGO_ENABLED=$([ ${#race[@]} -gt 0 ] && echo 1 || echo 0) go test ${race[@]+"${race[@]}"} -timeout 15m $packages
}
chart() { hack/helm.sh && go test -count=1 -timeout 20m ./charts/; }
# These measure time and memory, which the race detector multiplies.
bombs() { go test -count=1 -timeout 15m ./robustness/ && go test -count=1 -timeout 5m -run TestBombs ./internal/celenv/; }
conformance() { go test -count=1 -timeout 10m -v -run 'TestConformance' ./conformance/ | { grep -vE '^\s*(=== |--- PASS)' || true; }; return "${PIPESTATUS[0]}"; }
e2e() {
  local packages
  packages=$(go list ./e2e/... | grep -v '/e2e/dashboard$')
  # shellcheck disable=SC2086
  go test -count=1 -timeout 30m $packages ./internal/devcluster/
}
# Without EPHOR_UI the tests that need a browser are skipped.
dashboard() { EPHOR_UI=${EPHOR_UI/none/} go test -count=1 -timeout 10m ./e2e/dashboard/; }

part "lint" hack/lint.sh
part "generated files are up to date" hack/verify-generated.sh
part "floors: imports against the architecture" go test -count=1 .
part "unit tests${race:+ (with -race)}" unit
part "the chart: lint, schema, what each switch changes" chart
part "limits on any input" bombs
if [ "$EPHOR_CONFORMANCE" != none ]; then
  part "conformance data" conformance
fi
part "end-to-end tests on a real API server" e2e
: "${EPHOR_UI:=chromium}"
part "the dashboard, in Chromium" dashboard

echo "== all parts passed after $((SECONDS - started)) s"
printf '%s\n' "${summary[@]}"
if [ "$EPHOR_CONFORMANCE" = none ]; then
  echo "conformance: NOT RUN"
fi
if [ "$EPHOR_UI" = none ]; then
  echo "the dashboard in a browser: NOT RUN"
fi
