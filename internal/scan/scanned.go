package scan

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
)

// Scanned returns the kinds that are scanned and may be listed.
func (s *Scanner) Scanned() []schema.GroupKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []schema.GroupKind
	for _, l := range s.loops {
		if l.evaluated.Load() {
			out = append(out, l.set.Load().resource.GVK().GroupKind())
		}
	}
	return out
}

// RulesOf returns the rules of the policies.
func RulesOf(s *catalog.Snapshot) Rules { return rulesOf(s) }

// Unscanned returns the rules of the policies for a process that scans nothing: all their results come from other sources.
func Unscanned(s *catalog.Snapshot) Rules {
	k := rulesOf(s)
	for r := range k {
		k[r] = nil
	}
	return k
}
