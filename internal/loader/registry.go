package loader

import (
	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// Loader is one kind of context entry.
type Loader struct {
	Field string // the API field that it owns, such as configMap
	Doc   string // one sentence for the reference documentation
	// Examples together show every field.
	Examples []Example
	// Owns reports whether the entry has the field.
	Owns func(*kyvernov1.ContextEntry) bool

	compile func(*kyvernov1.ContextEntry, input) compiled
}

// Example is a context entry in YAML, and what it reads.
type Example struct{ What, YAML string }

// loaders is the immutable registry, in the order in which the API lists the fields.
var loaders = freeze(configMap, apiCall, imageRegistry, variable, globalReference)

func freeze(ls ...Loader) []Loader {
	seen := map[string]bool{}
	for _, l := range ls {
		if l.Field == "" || l.Doc == "" || len(l.Examples) == 0 || l.Owns == nil || l.compile == nil || seen[l.Field] {
			panic("loader: incomplete or duplicate registration of " + l.Field)
		}
		seen[l.Field] = true
	}
	return ls
}

// Loaders lists every kind of context entry.
func Loaders() []Loader { return append([]Loader(nil), loaders...) }
