package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDefinitions(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "definitions")
	const given = `
kind: CustomResourceDefinition
spec:
  versions:
  - name: v1beta1
    served: true
    schema:
      openAPIV3Schema:
        description: Thing is a thing.
        properties:
          spec: {description: What is wanted., type: object}
  - name: v1
    served: true
    additionalPrinterColumns: [{name: READY, description: Whether it is. Or not.}]
    schema:
      openAPIV3Schema:
        description: |-
          Thing is a thing. There are others.
        properties:
          spec:
            description: |-
              What is
              wanted. By default nothing.

              At length.
            properties:
              description: {type: string, description: A text. Or none.}
          status:
            description: What is.
            properties:
              ready: {type: boolean, description: Whether it is. Or not.}
              rules: {type: array, items: {type: string, description: One more.}}
  - name: v2alpha1
    schema: {openAPIV3Schema: {description: Not served.}}
  - name: v1alpha1
    schema: {openAPIV3Schema: {description: Equal.}}
    selectableFields: [{jsonPath: .spec.a}]
`
	const want = `{"kind":"CustomResourceDefinition","spec":{"versions":[` +
		`{"name":"v1beta1","schema":{"openAPIV3Schema":{"properties":{"spec":{"type":"object"}}}},"served":true},` +
		`{"additionalPrinterColumns":[{"description":"Whether it is. Or not.","name":"READY"}],"name":"v1",` +
		`"schema":{"openAPIV3Schema":{"description":"Thing is a thing. There are others.","properties":{` +
		`"spec":{"description":"What is wanted. By default nothing.","properties":{"description":{"description":"A text. Or none.","type":"string"}}},` +
		`"status":{"description":"What is.","properties":{"ready":{"description":"Whether it is. Or not.","type":"boolean"},"rules":{"items":{"type":"string"},"type":"array"}}}}}},"served":true},` +
		`{"name":"v2alpha1","schema":{"openAPIV3Schema":{}}},` +
		`{"name":"v1alpha1","schema":{"openAPIV3Schema":{"description":"Equal."}},"selectableFields":[{"jsonPath":".spec.a"}]}]}}` + "\n"
	if err := os.WriteFile(filepath.Join(from, "things.yaml"), []byte(given), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time over the first
		if err := writeDefinitions(from, to); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(to, "things.json"))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if err := writeDefinitions(t.TempDir(), to); err == nil {
		t.Error("a folder without definitions is no mistake")
	}
	large := strings.Replace(given, "What is\n", strings.Repeat("What is ", maxApplied/8)+"\n", 1)
	if err := os.WriteFile(filepath.Join(from, "things.yaml"), []byte(large), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeDefinitions(from, to); err == nil {
		t.Error("a definition that kubectl apply rejects is accepted")
	}
}

func TestSummary(t *testing.T) {
	long := strings.Repeat("x", maxDescription)
	for text, want := range map[string]string{
		"":                            "",
		"One":                         "One",
		"One. Two.":                   "One. Two.",
		"One, e.g. this. Two.":        "One, e.g. this. Two.",
		"One\nline.\n\nNot this.":     "One line.",
		long + ". Two.":               long + ".",
		"One. " + long + ". Three.":   "One.",
		"One. Two. " + long + " etc.": "One. Two.",
	} {
		if got := summary(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
