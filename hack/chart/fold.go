package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/hack/chart/helm"
)

// fold joins rendered documents to one text. It replaces a CustomResourceDefinition by one line that names its file in
// definitions, followed by the metadata that the chart adds; package charts unfolds it. Any other change of the chart
// to the file is an error.
func fold(docs []helm.Document, definitions string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Made by hack/generate.sh from charts/ephor; do not edit.\n")
	for _, doc := range docs {
		out.WriteString("---\n")
		if doc.Kind != "CustomResourceDefinition" {
			out.WriteString(doc.Text)
			continue
		}
		plural, group, _ := strings.Cut(doc.Name, ".")
		file := group + "_" + plural + ".json"
		text, err := os.ReadFile(filepath.Join(definitions, file))
		if err != nil {
			return nil, err
		}
		var original, rendered map[string]any
		if err := json.Unmarshal(text, &original); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := yaml.Unmarshal([]byte(doc.Text), &rendered); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		metadata, _ := rendered["metadata"].(map[string]any)
		delete(metadata, "name")
		added, err := yaml.Marshal(metadata)
		if err != nil {
			return nil, err
		}
		rendered["metadata"] = original["metadata"]
		if !reflect.DeepEqual(original, rendered) {
			return nil, fmt.Errorf("%s is rendered with more changes than to its metadata", file)
		}
		fmt.Fprintf(&out, "# crd: %s\n%s", file, added)
	}
	return out.Bytes(), nil
}
