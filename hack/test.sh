#!/usr/bin/env bash
# The gate: runs every part, prints its name and duration, and stops at the first part that fails.
#
# It needs Go, git and make. Without the conformance data, jq, a browser, a C compiler, ruby, dpkg or PostgreSQL it skips parts, which the
# last lines name as NOT RUN. With CI=true a missing tool is an error, except for the C compiler, ruby, dpkg and PostgreSQL.
#
#   CI                 "true" makes everything required
#   EPHOR_CONFORMANCE  folder of the conformance data (default ../shared/conformance); "none" runs without them
#   EPHOR_REFERENCE    folder of the reference schemas (default ../shared/reference)
#   EPHOR_UI           "none" runs without a browser
#   EPHOR_E2E          folders below e2e/, to run their end-to-end tests only ("rollout trust")
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

not_run=()
# missing WHAT WHY HELP: skips WHAT because of WHY; with CI=true it is an error that shows HELP.
missing() {
  if [ "${CI:-}" = true ]; then
    echo "make test: $2: $3" >&2
    exit 1
  fi
  echo "make test: $2: $3"
  not_run+=("$1: NOT RUN ($2)")
}

data=$root/../shared
if [ "${EPHOR_CONFORMANCE:-}" = none ]; then
  not_run+=("conformance: NOT RUN (EPHOR_CONFORMANCE=none)")
elif [ -z "${EPHOR_CONFORMANCE:-}" ] && [ -z "${EPHOR_REFERENCE:-}" ] && [ ! -d "$data/conformance" ] && [ ! -d "$data/reference" ]; then
  missing "conformance" "there is no folder $data" \
    "set EPHOR_CONFORMANCE and EPHOR_REFERENCE to the folders of the data, or EPHOR_CONFORMANCE=none to run without"
  EPHOR_CONFORMANCE=none
fi
export EPHOR_CONFORMANCE=${EPHOR_CONFORMANCE:-$data/conformance}
export EPHOR_REFERENCE=${EPHOR_REFERENCE:-$data/reference}
if [ "$EPHOR_CONFORMANCE" != none ]; then
  for name in EPHOR_CONFORMANCE EPHOR_REFERENCE; do
    # A named folder that does not exist is an error, with and without CI.
    if [ ! -d "${!name}" ]; then
      echo "make test: there is no folder ${!name}: set $name to the folder of the data, or EPHOR_CONFORMANCE=none to run without" >&2
      exit 1
    fi
  done
  EPHOR_CONFORMANCE=$(cd "$EPHOR_CONFORMANCE" && pwd)
  EPHOR_REFERENCE=$(cd "$EPHOR_REFERENCE" && pwd)
fi

# The tests that call jq skip themselves without it, and fail without it when CI=true.
if ! command -v jq >/dev/null 2>&1; then
  missing "the commands of the guides that use jq" "there is no jq" "install Debian's package jq"
fi
if [ "${EPHOR_UI:-}" = none ]; then
  not_run+=("the dashboard in a browser: NOT RUN (EPHOR_UI=none)")
else
  for tool in chromium chromedriver; do
    if ! command -v "$tool" >/dev/null 2>&1; then
      missing "the dashboard in a browser" "there is no $tool" \
        "install Debian's packages chromium and chromium-driver, or set EPHOR_UI=none to run without a browser"
      EPHOR_UI=none
      break
    fi
  done
fi

# Without these a test skips itself, in CI too.
if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  not_run+=("the store of decisions in PostgreSQL: NOT RUN (there is no Debian package postgresql)")
fi
if ! command -v ruby >/dev/null 2>&1; then
  not_run+=("the Homebrew formula: NOT RUN (there is no ruby)")
fi
if ! command -v dpkg >/dev/null 2>&1; then
  not_run+=("the Debian package in a bare root: NOT RUN (there is no dpkg)")
elif [ "$(id -u)" != 0 ] && ! unshare --user --map-root-user true 2>/dev/null; then
  not_run+=("the Debian package in a bare root: NOT RUN (user namespaces are not permitted)")
fi

started=$SECONDS
summary=()
# The tests that failed once and then passed; see gotest.sh.
FAILED_ONCE=$(mktemp)
export FAILED_ONCE
trap 'rm -f "$FAILED_ONCE"' EXIT
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
  not_run+=("the race detector: NOT RUN (there is no C compiler)")
fi
unit() {
  local packages
  packages=$(go list ./... | grep -vE '/(e2e|soak|conformance|robustness|internal/devcluster|charts)($|/)')
  # shellcheck disable=SC2086
  CGO_ENABLED=$([ ${#race[@]} -gt 0 ] && echo 1 || echo 0) hack/gotest.sh "${race[*]-} -timeout 15m" $packages
}
chart() { hack/helm.sh && go test -count=1 -timeout 20m ./charts/; }
# The files of a release, from a small program, since make release takes many minutes.
release() { go test -C hack/tools/release -count=1 -timeout 10m . && go test -C hack/tools/site -count=1 .; }
# These measure time and memory, which the race detector multiplies.
bombs() { hack/gotest.sh "-count=1 -timeout 15m" ./robustness/ && hack/gotest.sh "-count=1 -timeout 5m -run TestBombs|TestEstimates|TestT15" ./internal/celenv/ ./internal/compilecost/ ./internal/compile/ &&
  CGO_ENABLED=0 go test -count=1 -run TestAllocations ./internal/seal/ ./internal/secretpath/; }
conformance() { go test -count=1 -timeout 10m -v -run 'TestConformance|TestCEL$' ./conformance/ | { grep -vE '^\s*(=== |--- PASS)' || true; }; return "${PIPESTATUS[0]}"; }
e2e() {
  local packages
  if [ -n "${EPHOR_E2E:-}" ]; then
    packages=$(printf './e2e/%s/... ' $EPHOR_E2E)
  else
    packages=$(go list ./e2e/... | grep -vE '/e2e/(dashboard|site)$')
  fi
  # shellcheck disable=SC2086
  hack/gotest.sh "-count=1 -timeout 30m" $packages ./internal/devcluster/
}
# Without EPHOR_UI the tests that need a browser are skipped.
dashboard() { EPHOR_UI=${EPHOR_UI/none/} hack/gotest.sh "-count=1 -timeout 10m" ./e2e/dashboard/ ./e2e/site/; }

part "lint" hack/lint.sh
part "generated files are up to date" hack/verify-generated.sh
part "floors: imports against the architecture" go test -count=1 .
part "unit tests${race:+ (with -race)}" unit
part "the chart: lint, schema, what each switch changes" chart
part "the files of a release, the site of the guide" release
part "limits on any input" bombs
if [ "$EPHOR_CONFORMANCE" != none ]; then
  part "conformance data" conformance
fi
if [ "$EPHOR_CONFORMANCE" = none ]; then
  not_run+=("the switch from Kyverno with its recorded objects: NOT RUN (there are no reference data)")
fi
part "end-to-end tests on a real API server" e2e
: "${EPHOR_UI:=chromium}"
part "the dashboard and the guide, in Chromium" dashboard

echo "== all parts passed after $((SECONDS - started)) s"
printf '%s\n' "${summary[@]}"
[ -z "${EPHOR_E2E:-}" ] || not_run+=("end-to-end tests outside of $EPHOR_E2E: NOT RUN (EPHOR_E2E)")
[ ${#not_run[@]} = 0 ] || printf '%s\n' "${not_run[@]}"
sed 's/^/FAILED ONCE, then passed: /' "$FAILED_ONCE"
