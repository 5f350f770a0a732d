// Package charts carries what the chart in charts/ephor installs, rendered for development control planes, so that no
// test needs Helm: hack/generate.sh renders it, and the gate refuses a render that is not that of the chart.
//
//	text, err := charts.YAML("dev")
//	for _, doc := range charts.Documents(text) { … }
//
// values/⟨name⟩.yaml are the values of rendered/⟨name⟩.yaml. It only carries; applying is up to the caller. Its tests hold
// the chart itself to account (testdata: what each switch changes). It imports nothing of Ephor.
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

//go:embed rendered/*.yaml ephor/definitions/*.json ephor/values.schema.json
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

// crdLine stands for a CustomResourceDefinition of ephor/definitions; what the chart adds to its metadata follows.
const crdLine = "# crd: "

// YAML is the render with the values of that name (dev, standard, …), documents separated by ---.
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

// Definitions are the CustomResourceDefinitions of the chart as JSON, without the metadata that a render adds, by the names of their files.
func Definitions() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		const dir = "ephor/definitions"
		entries, err := files.ReadDir(dir)
		if err != nil {
			panic("charts: " + err.Error()) // the embedded directory is always there
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

// definition is the file with the metadata (YAML) added, as JSON, which is YAML too.
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

// Documents takes YAML apart into the texts of its documents, without empty ones.
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
