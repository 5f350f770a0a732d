package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/config/crds"
	"ephor.invalid/ephor/internal/cli"
)

// commands writes the pages that `ephor docs` writes.
func commands(dir string) error {
	if err := os.RemoveAll(dir); err != nil { // a removed command leaves no page behind
		return err
	}
	root := cli.NewRoot()
	root.SetArgs([]string{"docs", "--output", dir, "--autogenTag=false"})
	return root.Execute()
}

// definitions writes a page for each kind, with the fields that users write, and a list of the kinds.
func definitions(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	index := &page{}
	index.title("Definitions", "The kinds that Ephor defines, with all fields that users write. `kubectl explain` shows the same for a cluster.\n\n"+
		"| Kind | Group | Versions | In a namespace |\n|---|---|---|---|")
	text := index.String()
	index.Reset()
	index.WriteString(strings.TrimRight(text, "\n") + "\n")
	for _, name := range crds.Names() {
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(crds.File(name), &d); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		file := d.Spec.Names.Plural + "." + d.Spec.Group + ".md"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(definition(&d)), 0o644); err != nil {
			return err
		}
		var versions []string
		for _, v := range d.Spec.Versions {
			note := ""
			if v.Deprecated {
				note = " (deprecated)"
			}
			versions = append(versions, "`"+v.Name+"`"+note)
		}
		namespaced := "yes"
		if d.Spec.Scope != apiextensionsv1.NamespaceScoped {
			namespaced = "no"
		}
		index.line("| [%s](%s) | `%s` | %s | %s |", d.Spec.Names.Kind, file, d.Spec.Group, strings.Join(versions, ", "), namespaced)
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), []byte(index.String()), 0o644)
}

// definition returns the page of one kind, in its newest version.
func definition(d *apiextensionsv1.CustomResourceDefinition) string {
	version := slices.MaxFunc(d.Spec.Versions, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) int {
		return cmp.Or(cmp.Compare(stability(a.Name), stability(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	schema := version.Schema.OpenAPIV3Schema
	p := &page{}
	intro := schema.Description
	if names := d.Spec.Names.ShortNames; len(names) > 0 {
		intro += "\n\nFor kubectl: `" + d.Spec.Names.Plural + "`, `" + strings.Join(names, "`, `") + "`."
	}
	p.title(d.Spec.Names.Kind, intro+"\n\n`apiVersion: "+d.Spec.Group+"/"+version.Name+"`")
	p.line("| Field | Type | |\n|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			continue
		}
		field := schema.Properties[name]
		fields(p, name, &field, slices.Contains(schema.Required, name))
	}
	return p.String()
}

// stability returns a key that orders versions: v1 is newer than v1beta1, which is newer than v1alpha1; v2 is newer than
// all of them.
func stability(version string) string {
	number, rest, beta := strings.Cut(version, "beta")
	if beta {
		return number + "b" + rest
	}
	if number, rest, alpha := strings.Cut(version, "alpha"); alpha {
		return number + "a" + rest
	}
	return version + "c"
}

// fields writes a row for a field and for those below it.
func fields(p *page, path string, s *apiextensionsv1.JSONSchemaProps, required bool) {
	kind := s.Type
	below := s
	for {
		if below.Type == "array" && below.Items != nil && below.Items.Schema != nil {
			below = below.Items.Schema
			path += "[]"
			kind = "list of " + cmp.Or(below.Type, "any")
			continue
		}
		if below.AdditionalProperties != nil && below.AdditionalProperties.Schema != nil {
			below = below.AdditionalProperties.Schema
			path += ".⟨key⟩"
			kind = "map of " + cmp.Or(below.Type, "any")
			continue
		}
		break
	}
	doc, _, _ := strings.Cut(strings.TrimSpace(s.Description), "\n\n")
	doc = cell(doc)
	if len(s.Enum) > 0 || len(below.Enum) > 0 {
		values := s.Enum
		if below != s {
			values = slices.Concat(values, below.Enum)
		}
		var words []string
		for _, v := range values {
			if word := "`" + strings.Trim(string(v.Raw), `"`) + "`"; !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
		doc += " One of " + strings.Join(words, ", ") + "."
	}
	if s.Default != nil {
		doc += " Default: " + codeCell(string(s.Default.Raw)) + "."
	}
	if required {
		doc += " Required."
	}
	p.line("| `%s` | %s | %s |", path, cmp.Or(kind, "any"), strings.TrimSpace(doc))
	for _, name := range slices.Sorted(maps.Keys(below.Properties)) {
		field := below.Properties[name]
		fields(p, path+"."+name, &field, slices.Contains(below.Required, name))
	}
}
