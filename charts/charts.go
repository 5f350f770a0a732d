// Package charts carries what the chart in charts/ephor installs, rendered for development control planes, so that no
// test needs Helm: hack/generate.sh renders it, and the gate refuses a render that is not that of the chart.
//
//	text, err := charts.YAML("dev")
//	for _, doc := range charts.Documents(text) { … }
//
// values/⟨name⟩.yaml are the values of rendered/⟨name⟩.yaml. It only carries; applying is up to the caller. Its tests hold
// the chart itself to account (testdata: what each switch changes). It imports nothing of Ephor but config/crds.
package charts

import (
	"bytes"
	"embed"
	"fmt"
	"strings"

	"github.com/ephor-dev/ephor/config/crds"
)

//go:embed rendered/*.yaml
var rendered embed.FS

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

// crdLine stands for the text of a CustomResourceDefinition, which config/crds has; what the chart adds to its metadata
// follows.
const crdLine = "# crd: "

// YAML is the render with the values of that name (dev, standard, …), documents separated by ---.
func YAML(values string) ([]byte, error) {
	text, err := rendered.ReadFile("rendered/" + values + ".yaml")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, doc := range documents(string(text)) {
		line, metadata, _ := strings.Cut(doc, "\n")
		if file, ok := strings.CutPrefix(line, crdLine); ok {
			original := string(crds.File(file))
			if original == "" {
				return nil, fmt.Errorf("charts: there is no definition %s in config/crds", file)
			}
			doc = strings.Replace(strings.TrimPrefix(original, "---\n"), "\nmetadata:\n", "\nmetadata:\n"+strings.TrimSuffix(metadata, "\n")+"\n", 1)
		}
		out.WriteString("---\n" + strings.TrimSuffix(doc, "\n") + "\n")
	}
	return out.Bytes(), nil
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
