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

// definitions writes a page for each kind, with the fields that users write, and a list of the kinds. schemas is the folder for the schemas
// of files.
func definitions(dir, schemas string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, d := range []string{dir, schemas} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	index := &page{}
	index.title("Definitions", "The kinds that Ephor defines, with all fields that users write. `ephor schema KIND` prints the JSON schema of each, for editors and validators.\n\n"+
		"## In a cluster\n\n`kubectl explain` shows the same for a cluster.\n\n"+
		"| Kind | Group | Versions | In a namespace |\n|---|---|---|---|")
	text := index.String()
	index.Reset()
	index.WriteString(strings.TrimRight(text, "\n") + "\n")
	for _, name := range crds.Names() {
		d, err := definitionIn(name)
		if err != nil {
			return err
		}
		file := d.Spec.Names.Plural + "." + d.Spec.Group + ".md"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(definition(d)), 0o644); err != nil {
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
	index.line("\n## In files\n\n| Kind | Group | Version |\n|---|---|---|")
	d := &types{comments: map[string]map[string]string{}}
	for _, f := range formats {
		text, err := f.write(d, schemas)
		if err != nil {
			return err
		}
		file := strings.ToLower(f.kind) + "." + f.group + ".md"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
		index.line("| [%s](%s) | `%s` | `%s` |", f.kind, file, f.group, f.version)
	}
	for old, used := range kubernetes.used {
		if !used {
			return fmt.Errorf("no description has the words %q: remove them from the table", old)
		}
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), []byte(index.String()), 0o644)
}

func definitionIn(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(crds.File(name), d); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// shown returns the version of a kind that the guide uses: the first that is served.
func shown(d *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionVersion {
	return d.Spec.Versions[slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })]
}

// definition returns the page of one kind.
func definition(d *apiextensionsv1.CustomResourceDefinition) string {
	version := shown(d)
	schema := version.Schema.OpenAPIV3Schema
	p := &page{}
	intro := schema.Description
	if names := d.Spec.Names.ShortNames; len(names) > 0 {
		intro += "\n\nFor kubectl: `" + d.Spec.Names.Plural + "`, `" + strings.Join(names, "`, `") + "`."
	}
	p.title(d.Spec.Names.Kind, intro+"\n\n`apiVersion: "+d.Spec.Group+"/"+version.Name+"`")
	p.rows(schema, "apiVersion", "kind", "metadata", "status")
	return p.String()
}

// rows writes the table of all fields of an object except those to omit.
func (p *page) rows(s *apiextensionsv1.JSONSchemaProps, omit ...string) {
	p.line("| Field | Type | |\n|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(omit, name) {
			field := s.Properties[name]
			fields(p, name, &field, slices.Contains(s.Required, name))
		}
	}
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
	doc := cell(summary(s.Description))
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

// summary returns the first paragraph of a description, up to the end of its last sentence.
func summary(description string) string {
	text, _, _ := strings.Cut(strings.TrimSpace(description), "\n\n")
	text = kubernetes.replace(strings.Join(strings.Fields(text), " "))
	if end := strings.LastIndex(text, ". "); strings.HasSuffix(text, ":") && end >= 0 { // it introduces a list, which the table leaves out
		text = text[:end+1]
	}
	if text != "" && !strings.HasSuffix(text, ".") {
		text = strings.TrimRight(text, ":,;") + "."
	}
	return text
}

// words replaces parts of descriptions.
type words struct {
	list []string // old, new, …
	used map[string]bool
}

// kubernetes has the words of Kubernetes' own types that are about its policies, not about Ephor's.
var kubernetes = words{used: map[string]bool{}, list: []string{
	"CEL expressions have access to the contents of the AdmissionRequest and Authorizer, organized into CEL variables:", inCEL,
	"ref: https://github.com/google/cel-spec CEL expressions have access to the contents of the API request/response, organized into CEL variables " +
		"as well as some other useful variables:", inCEL,
	" ref: https://github.com/google/cel-spec", "",
	"the ValidatingAdmissionPolicy", "the policy",
	"keys of a ValidatingAdmissionPolicy", "keys of a policy",
	"messageExpression has access to all the same variables as the `expression` except for 'authorizer' and 'authorizer.requestResource'.",
	"It has the variables of the expression.",
	" If the Authorizer does not recognized the kind value, the Authorizer should report an error.", "",
	"If the object kind is non-namespace, such as \"User\" or \"Group\", and this value is not empty the Authorizer should report an error.",
	"It is empty for users and groups.",
}}

const inCEL = "[Policies in CEL](../../policies/cel.md) lists the variables."

func (w *words) replace(text string) string {
	for i := 0; i < len(w.list); i += 2 {
		old := w.list[i]
		w.used[old] = w.used[old] || strings.Contains(text, old)
		text = strings.ReplaceAll(text, old, w.list[i+1])
	}
	return text
}
