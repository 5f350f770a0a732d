package cli

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// The schemas accept every policy, exception and test of the examples, and refuse a field that the kind does not have.
func TestSchemas(t *testing.T) {
	all, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	validators := map[string]*validate.SchemaValidator{}
	for _, k := range all {
		text, err := json.Marshal(k.document())
		if err != nil {
			t.Fatal(err)
		}
		var s spec.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		validators[k.apiVersion+" "+k.name] = validate.NewSchemaValidator(&s, nil, "", strfmt.Default)
	}
	checked := map[string]int{}
	err = filepath.WalkDir("../../examples", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var object map[string]any
			if yaml.Unmarshal([]byte(document), &object) != nil {
				continue // a template, or a file that is broken on purpose
			}
			version, _ := object["apiVersion"].(string)
			kind, _ := object["kind"].(string)
			v := validators[version+" "+kind]
			if v == nil {
				continue
			}
			if r := v.Validate(object); !r.IsValid() {
				t.Errorf("%s: %v", path, r.AsError())
			}
			checked[kind]++
			object["unknown"] = true
			if v.Validate(object).IsValid() {
				t.Errorf("%s: the schema of %s accepts a field that does not exist", path, kind)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ClusterPolicy", "ValidatingPolicy", "MutatingPolicy", "Test"} {
		if checked[kind] == 0 {
			t.Errorf("no example of %s was found: %v", kind, checked)
		}
	}
}
