package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDefinitions(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "definitions")
	const given = `
kind: CustomResourceDefinition
spec:
  versions:
  - additionalPrinterColumns: [{name: READY, description: Whether it is. Or not.}]
    schema:
      openAPIV3Schema:
        description: |-
          Thing is a thing, e.g. a stone. There are others.
        properties:
          spec:
            description: |-
              What is
              wanted

              At length.
            properties:
              description: {type: string, description: A text. Or none.}
          status:
            description: What is. Now.
            properties:
              ready: {type: boolean, description: Whether it is. Or not.}
              rules: {type: array, items: {type: string, description: One more. Time.}}
`
	const want = `{"kind":"CustomResourceDefinition","spec":{"versions":[{"additionalPrinterColumns":[{"description":"Whether it is.","name":"READY"}],` +
		`"schema":{"openAPIV3Schema":{"description":"Thing is a thing, e.g. a stone.","properties":{` +
		`"spec":{"description":"What is wanted","properties":{"description":{"description":"A text.","type":"string"}}},` +
		`"status":{"description":"What is.","properties":{"ready":{"description":"Whether it is.","type":"boolean"},"rules":{"items":{"type":"string"},"type":"array"}}}}}}}]}}` + "\n"
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
}
