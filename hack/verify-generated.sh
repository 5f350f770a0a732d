#!/bin/sh
# Fails, with a diff, when the deep copies, the CRDs, docs/reference, the schemas of files, the merge keys or what is derived from
# the chart differ from those that hack/generate.sh makes from the code.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT INT TERM
mkdir -p "$copy/config"
cp "$root/go.mod" "$root/go.sum" "$copy/"
cp -R "$root/api" "$copy/api"
cp -R "$root/config/crds" "$copy/config/crds"
cp -R "$root/charts" "$copy/charts"
mkdir -p "$copy/docs/start"
cp "$root/docs/start/install.md" "$root/docs/start/pod-security.md" "$copy/docs/start/"
"$root/hack/generate.sh" "$copy"
status=0
diff -ru "$root/api" "$copy/api" || status=1
diff -ru "$root/config/crds" "$copy/config/crds" || status=1
diff -ru --no-dereference "$root/charts" "$copy/charts" || status=1
for page in install.md pod-security.md; do diff -u "$root/docs/start/$page" "$copy/docs/start/$page" || status=1; done
diff -ru "$root/docs/reference" "$copy/docs/reference" || status=1
diff -ru -x formats.go "$root/config/formats" "$copy/config/formats" || status=1
diff -u "$root/internal/patch/mergekeys.txt" "$copy/internal/patch/mergekeys.txt" || status=1
if [ $status -ne 0 ]; then
	echo "generated files are not up to date: run hack/generate.sh and commit what it changes" >&2
fi
exit $status
