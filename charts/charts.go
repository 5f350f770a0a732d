// Package charts contains renders of the chart in charts/ephor for development control planes, so that tests do not need Helm.
// hack/generate.sh writes them, and the gate checks that they equal the chart.
//
//	text, err := charts.YAML("dev")
//	for _, doc := range charts.Documents(text) { … }
//
// values/⟨name⟩.yaml contains the values of rendered/⟨name⟩.yaml. The caller applies the objects. The tests of this package test the chart
// itself (testdata: the effect of each switch). It imports nothing of Ephor.
package charts

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed rendered/*.yaml ephor/definitions/*.json */values.schema.json
var files embed.FS

// Names of objects in every render here.
const (
	Namespace               = "kyverno"
	AdmissionServiceAccount = "kyverno-admission-controller"
	AdmissionService        = "kyverno-svc"
	CleanupService          = "kyverno-cleanup-controller"
	ConfigMap               = "kyverno"
	AdmissionCASecret       = AdmissionService + "." + Namespace + ".svc.kyverno-tls-ca"
	AdmissionTLSSecret      = AdmissionService + "." + Namespace + ".svc.kyverno-tls-pair"
)

// crdLine represents a CustomResourceDefinition of ephor/definitions. The metadata that the chart adds follows.
const crdLine = "# crd: "

// YAML returns the render with the values of that name (dev, standard, …), with documents separated by ---.
func YAML(values string) ([]byte, error) {
	text, err := files.ReadFile("rendered/" + values + ".yaml")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, doc := range documents(string(text)) {
		line, metadata, _ := strings.Cut(doc, "\n")
		if file, ok := strings.CutPrefix(line, crdLine); ok {
			if doc, err = definition(file, metadata); err != nil {
				return nil, fmt.Errorf("charts: %s: %w", file, err)
			}
		}
		out.WriteString("---\n" + strings.TrimSuffix(doc, "\n") + "\n")
	}
	return out.Bytes(), nil
}

// Definitions returns the chart's CustomResourceDefinitions as JSON, without the metadata that a render adds, by the names of their files.
func Definitions() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		const dir = "ephor/definitions"
		entries, err := files.ReadDir(dir)
		if err != nil {
			panic("charts: " + err.Error()) // the embedded directory always exists
		}
		for _, e := range entries {
			text, err := files.ReadFile(dir + "/" + e.Name())
			if err != nil {
				panic("charts: " + err.Error())
			}
			if !yield(e.Name(), text) {
				return
			}
		}
	}
}

// definition returns the file with the metadata (YAML) added, as JSON, which is also YAML.
func definition(file, metadata string) (string, error) {
	text, err := files.ReadFile("ephor/definitions/" + file)
	if err != nil {
		return "", err
	}
	var added map[string]any
	if err := yaml.Unmarshal([]byte(metadata), &added); err != nil {
		return "", err
	}
	var object struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   map[string]any  `json:"metadata"`
		Spec       json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return "", err
	}
	maps.Copy(object.Metadata, added)
	out, err := json.Marshal(object)
	return string(out), err
}

// Documents splits YAML into its documents, without empty ones.
func Documents(text []byte) [][]byte {
	var docs [][]byte
	for _, doc := range documents(string(text)) {
		docs = append(docs, []byte(doc))
	}
	return docs
}

func documents(text string) []string {
	var docs []string
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		if doc = strings.TrimPrefix(doc, "\n"); strings.Contains(doc, ":") && !strings.HasPrefix(doc, "# Made by") {
			docs = append(docs, doc)
		}
	}
	return docs
}
