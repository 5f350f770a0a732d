package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// examplePolicy is the content of the page for one policy.
type examplePolicy struct {
	name, category, severity, subject, description string
	classic, cel                                   string // paths below examples/
}

// policies writes the list of the policies in examples/, by category.
func policies(p *page) error {
	p.title("Policies", "The policies in [examples](../../examples/README.md), each written twice: as a ClusterPolicy and as a ValidatingPolicy in CEL. Use one of the two. Both have\n"+
		"tests, which `ephor test examples` runs.")
	found, err := examplePolicies("examples")
	if err != nil {
		return err
	}
	category := ""
	for _, e := range found {
		if e.category != category {
			category = e.category
			p.line("\n## %s\n\n| Policy | Severity | About | What for | |\n|---|---|---|---|---|", category)
		}
		p.line("| `%s` | %s | %s | %s | [classic](../../examples/%s), [CEL](../../examples/%s) |", e.name, e.severity, cell(e.subject), cell(e.description), e.classic, e.cel)
	}
	return nil
}

// examplePolicies reads the policies with their twins, sorted by category and name.
func examplePolicies(root string) ([]examplePolicy, error) {
	var out []examplePolicy
	for _, layout := range []struct{ pattern, twin string }{{"pod-security/*.yaml", "pod-security-cel/%s.yaml"}, {"library/*/policy.yaml", "library/%s/policy-cel.yaml"}} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(layout.pattern)))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			var object struct {
				Metadata struct {
					Name        string
					Annotations map[string]string
				}
			}
			if err := yaml.Unmarshal(text, &object); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			path, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			of := func(name string) string {
				return strings.TrimSpace(object.Metadata.Annotations["policies.kyverno.io/"+name])
			}
			e := examplePolicy{
				name: object.Metadata.Name, category: of("category"), severity: of("severity"), subject: of("subject"), description: of("description"),
				classic: filepath.ToSlash(path), cel: fmt.Sprintf(layout.twin, object.Metadata.Name),
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(e.cel))); err != nil {
				return nil, fmt.Errorf("%s has no twin in CEL: %w", file, err)
			}
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b examplePolicy) int {
		return cmp.Or(cmp.Compare(a.category, b.category), cmp.Compare(a.name, b.name))
	})
	return out, nil
}
