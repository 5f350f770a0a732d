package engine

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/policy"
)

// Annotations collects the annotations of results for the audit event of a request: the values by key. The zero value is empty.
type Annotations map[string][]string

// Add adds the annotations of an Outcome. It does not repeat a value that a key already has.
func (a *Annotations) Add(out *policy.Outcome) {
	for i := range out.Results {
		for key, text := range out.Results[i].Annotations {
			if *a == nil {
				*a = Annotations{}
			}
			if !slices.Contains((*a)[key], text) {
				(*a)[key] = append((*a)[key], text)
			}
		}
	}
}

// Texts returns the annotations for the answer. Several values of a key are separated by commas, as the API server does for its own
// policies.
func (a Annotations) Texts() map[string]string {
	if a == nil {
		return nil
	}
	out := make(map[string]string, len(a))
	for key, texts := range a {
		out[key] = strings.Join(texts, ", ")
	}
	return out
}
