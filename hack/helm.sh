#!/bin/sh
# Builds the pinned Helm (hack/tools/helm) into bin/tools/helm; a minute or two the first time.
set -eu
cd "$(dirname "$0")/.."
mkdir -p bin/tools
[ -x bin/tools/helm ] || echo "Building bin/tools/helm ..."
go build -C hack/tools/helm -o ../../../bin/tools/helm helm.sh/helm/v4/cmd/helm
