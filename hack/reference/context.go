package main

import (
	"fmt"

	"ephor.invalid/ephor/internal/loader"
)

func contextEntries(p *page) error {
	p.title("Context entries", "The kinds of entries in the context of a rule, of a foreach, or of a target, with all their fields. An entry has a `name`, by which expressions read it, and one of the\n"+
		"fields below. It is loaded when it is first used, at most once, and can use only the entries before it.")
	d, err := definitionIn("kyverno.io_clusterpolicies.yaml")
	if err != nil {
		return err
	}
	spec := shown(d).Schema.OpenAPIV3Schema.Properties["spec"]
	entry := spec.Properties["rules"].Items.Schema.Properties["context"].Items.Schema
	for _, l := range loader.Loaders() {
		field, ok := entry.Properties[l.Field]
		if !ok {
			return fmt.Errorf("the schema of ClusterPolicies has no context entry %s", l.Field)
		}
		p.line("## %s\n\n%s\n", l.Field, l.Doc)
		for _, e := range l.Examples {
			p.line("%s:\n", e.What)
			p.code("yaml", e.YAML)
		}
		p.rows(&field)
		p.line("")
	}
	return nil
}
