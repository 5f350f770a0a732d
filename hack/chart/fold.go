package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ephor-dev/ephor/hack/chart/helm"
)

// fold joins rendered documents to one text. A CustomResourceDefinition is not repeated there: it becomes one line that
// names its file in crds, followed by the metadata that the chart puts before the name; package charts unfolds it.
// Anything else that the chart changed in the file is an error.
func fold(docs []helm.Document, crds string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Made by hack/generate.sh from charts/ephor; do not edit.\n")
	for _, doc := range docs {
		out.WriteString("---\n")
		if doc.Kind != "CustomResourceDefinition" {
			out.WriteString(doc.Text)
			continue
		}
		plural, group, _ := strings.Cut(doc.Name, ".")
		file := group + "_" + plural + ".yaml"
		original, err := os.ReadFile(filepath.Join(crds, file))
		if err != nil {
			return nil, err
		}
		head, tail, ok := strings.Cut(strings.TrimPrefix(string(original), "---\n"), "\nmetadata:\n")
		if !ok {
			return nil, fmt.Errorf("%s has no metadata", file)
		}
		added, ok := strings.CutPrefix(doc.Text, head+"\nmetadata:\n")
		if ok {
			added, ok = strings.CutSuffix(strings.TrimRight(added, "\n"), strings.TrimRight(tail, "\n"))
		}
		if !ok {
			return nil, fmt.Errorf("%s is rendered with more changes than to its metadata", file)
		}
		fmt.Fprintf(&out, "# crd: %s\n%s", file, added)
	}
	return out.Bytes(), nil
}
