package crds_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/config/crds"
)

// TestDefinitions checks what installers rely on: strict CustomResourceDefinitions, one per file, named after it, with
// exactly one stored version.
func TestDefinitions(t *testing.T) {
	names := crds.Names()
	if len(names) == 0 {
		t.Fatal("no definitions are embedded")
	}
	for _, name := range names {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(crds.File(name), &crd); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := crd.Spec.Group + "_" + crd.Spec.Names.Plural + ".yaml"; want != name {
			t.Errorf("%s holds %s", name, want)
		}
		if want := crd.Spec.Names.Plural + "." + crd.Spec.Group; want != crd.Name {
			t.Errorf("%s: metadata.name is %s, want %s", name, crd.Name, want)
		}
		stored := 0
		for _, version := range crd.Spec.Versions {
			if version.Storage {
				stored++
			}
		}
		if stored != 1 {
			t.Errorf("%s: %d stored versions", name, stored)
		}
	}
	if crds.File("no-such-file.yaml") != nil {
		t.Error("File gives something for a name that does not exist")
	}
}

// TestComparison makes sure that TestReference can fail: each change of a definition is found.
func TestComparison(t *testing.T) {
	const definition = `
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: AGE, type: date}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          mode: {type: string, enum: [A, B], default: A}
          items:
            type: array
            items: {type: object, required: [key], properties: {key: {type: string, maxLength: 63}}}
          labels: {type: object, additionalProperties: {type: string}}
          free: {x-kubernetes-preserve-unknown-fields: true}
`
	root := func(o map[string]any) map[string]any {
		version := object(list(object(o["spec"])["versions"])[0])
		return object(object(object(version["schema"])["openAPIV3Schema"])["properties"])
	}
	changes := map[string]func(o map[string]any){
		"field missing": func(o map[string]any) { delete(root(o), "free") },
		"field added":   func(o map[string]any) { root(o)["more"] = map[string]any{"type": "string"} },
		"type":          func(o map[string]any) { object(root(o)["mode"])["type"] = "integer" },
		"enum":          func(o map[string]any) { object(root(o)["mode"])["enum"] = []any{"A"} },
		"default":       func(o map[string]any) { delete(object(root(o)["mode"]), "default") },
		"required":      func(o map[string]any) { delete(object(object(root(o)["items"])["items"]), "required") },
		"limit": func(o map[string]any) {
			object(object(object(object(root(o)["items"])["items"])["properties"])["key"])["maxLength"] = 64.0
		},
		"map values": func(o map[string]any) { object(object(root(o)["labels"])["additionalProperties"])["type"] = "integer" },
		"extension":  func(o map[string]any) { delete(object(root(o)["free"]), "x-kubernetes-preserve-unknown-fields") },
		"version":    func(o map[string]any) { object(list(object(o["spec"])["versions"])[0])["name"] = "v2" },
		"served":     func(o map[string]any) { object(list(object(o["spec"])["versions"])[0])["served"] = false },
		"columns": func(o map[string]any) {
			delete(object(list(object(o["spec"])["versions"])[0]), "additionalPrinterColumns")
		},
		"group": func(o map[string]any) { object(o["spec"])["group"] = "example.org" },
	}
	same := compareDefinitions(decode(t, []byte(definition)), decode(t, []byte(definition)))
	if len(same.lines) != 0 || same.fields != 8 {
		t.Errorf("equal definitions: %d fields, differences %v", same.fields, same.lines)
	}
	for name, change := range changes {
		changed := decode(t, []byte(definition))
		change(changed)
		if d := compareDefinitions(decode(t, []byte(definition)), changed); len(d.lines) != 1 {
			t.Errorf("%s: found %v, want one difference", name, d.lines)
		}
	}
}
