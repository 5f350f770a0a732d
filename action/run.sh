#!/usr/bin/env bash
# Runs `ephor test`, `ephor apply` or `ephor lint` and prints an annotation for each finding, which GitHub shows beside the line. The exit code is that
# of the command. Needs jq.
#
#   EPHOR_COMMAND    test, apply or lint
#   EPHOR_ARGUMENTS  its arguments, one in each line; they are passed as they are, and no shell reads them
#   EPHOR_SARIF      file for the findings
#   EPHOR_VERSION    version to install first; empty uses the program that is there
#   EPHOR_URL        address of the folder with the files of that version; without it, that of home.env
set -euo pipefail

case "${EPHOR_COMMAND:-}" in
test | apply | lint) ;;
*)
  echo "::error::command is \"${EPHOR_COMMAND:-}\"; it has to be test, apply or lint"
  exit 2
  ;;
esac
mapfile -t arguments < <(printf '%s\n' "${EPHOR_ARGUMENTS:-}" | sed '/^[[:space:]]*$/d')
sarif=${EPHOR_SARIF:-ephor.sarif}

if [ -n "${EPHOR_VERSION:-}" ]; then
  dir=${RUNNER_TEMP:-/tmp}/ephor-$EPHOR_VERSION
  url=${EPHOR_URL:-}
  if [ -z "$url" ]; then
    . "$(dirname "$0")/../home.env"
    case $EPHOR_HOME in
    *.invalid/*)
      echo "::error::This copy of Ephor does not say where releases are published: set EPHOR_URL to the address of the files of version $EPHOR_VERSION, or install ephor in an earlier step and leave version empty"
      exit 2
      ;;
    esac
    url=https://$EPHOR_HOME/releases/download/v$EPHOR_VERSION
  fi
  mkdir -p "$dir"
  curl -fsSL --retry 3 -o "$dir/install.sh" "$url/install.sh"
  EPHOR_DIR=$dir EPHOR_URL=$url sh "$dir/install.sh"
  PATH=$dir:$PATH
fi

code=0
ephor "$EPHOR_COMMAND" "${arguments[@]}" --sarif "$sarif" || code=$?

count=0
if [ -s "$sarif" ]; then
  # A text that was evaluated is data: what would begin or end a command of the runner is escaped.
  jq -r '
    def data: gsub("%"; "%25") | gsub("\r"; "%0D") | gsub("\n"; "%0A");
    def property: data | gsub(":"; "%3A") | gsub(","; "%2C");
    .runs[].results[]
    | .locations[0].physicalLocation as $at
    | "::" + (if .level == "warning" then "warning" else "error" end)
      + " file=" + ($at.artifactLocation.uri | property)
      + (if $at.region.startLine then ",line=" + ($at.region.startLine | tostring) else "" end)
      + (if $at.region.startColumn then ",col=" + ($at.region.startColumn | tostring) else "" end)
      + ",title=" + (.ruleId | property) + "::" + (.message.text | data)
  ' "$sarif"
  count=$(jq '[.runs[].results[]] | length' "$sarif")
fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then
  printf 'sarif=%s\nfindings=%s\n' "$sarif" "$count" >>"$GITHUB_OUTPUT"
fi
exit "$code"
