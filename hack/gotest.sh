#!/usr/bin/env bash
# Runs go test. A test that fails is run once more, alone, after all others; it counts as passed if it passes then.
#
#   hack/gotest.sh "FLAGS" PACKAGE...
#
# The end-to-end tests drive real API servers, whose delays on a busy machine no test controls. One failure of that kind is named, and does
# not discard a run of half an hour. These are never repeated: a data race, a panic, a build that fails, a test that exceeds the timeout, and
# more than two tests that fail in one run.
#
#   FAILED_ONCE  file to which "PACKAGE TEST" is appended for each test that failed and then passed
set -euo pipefail
read -ra flags <<<"$1"
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if go test "${flags[@]}" "$@" 2>&1 | tee "$log"; then
  exit 0
fi
if grep -qE '^(WARNING: DATA RACE|panic: |fatal error: |FAIL\s.*\[(build|setup) failed\])' "$log"; then
  exit 1
fi
# "PACKAGE TEST" per failure; a package that fails without naming a test gets the name "?".
failures=$(awk '
  /^--- FAIL: / { tests[++n] = $3 }
  /^FAIL\t/ { if (n == 0) print $2, "?"; for (i = 1; i <= n; i++) print $2, tests[i]; n = 0 }' "$log")
if [ -z "$failures" ] || [ "$(wc -l <<<"$failures")" -gt 2 ] || grep -q ' ?$' <<<"$failures"; then
  exit 1
fi
while read -r package name; do
  echo "== $name of $package failed; it runs once more"
  go test "${flags[@]}" -count=1 -run "^$name\$" "$package" </dev/null
  echo "$package $name" >>"${FAILED_ONCE:-/dev/null}"
done <<<"$failures"
