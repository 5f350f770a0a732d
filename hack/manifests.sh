#!/bin/sh
# Renders the chart as one manifest, for clusters without Helm: build/install.yaml, or the file that the first argument names.
#
#   VERSION=1.2.3    version of the image and of the labels; those of charts/ephor/Chart.yaml without it
#   REGISTRY=HOST    registry of the image; the default registry of the nodes without it
#   REPOSITORY=PATH  name of the image in the registry; that of charts/ephor/values.yaml without it
#   VALUES=FILE      values for the chart
#
# The same inputs give the same bytes.
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/install.yaml}
hack/helm.sh
chart=$(mktemp -d)
trap 'rm -rf "$chart"' EXIT INT TERM
cp -R charts/ephor "$chart/ephor"
[ -z "${VERSION:-}" ] || sed -E "s/^(version|appVersion):.*/\1: $VERSION/" charts/ephor/Chart.yaml >"$chart/ephor/Chart.yaml"
mkdir -p "$(dirname "$out")"
{
	echo "# Ephor${VERSION:+ $VERSION}, the chart rendered for the namespace kyverno. kubectl apply --server-side -f install.yaml"
	bin/tools/helm template kyverno "$chart/ephor" --namespace kyverno --set createNamespace=true --set-string "image.registry=${REGISTRY:-}" \
		${REPOSITORY:+--set-string "image.repository=$REPOSITORY"} ${VALUES:+--values "$VALUES"} | grep -v '^# Source: '
} >"$out.new"
mv "$out.new" "$out"
