package scan

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/catalog"
)

// Scanned are the kinds whose objects are evaluated, and evaluated again when they change: those that may be listed.
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

// RulesOf are the rules of the policies.
func RulesOf(s *catalog.Snapshot) Rules { return rulesOf(s) }

// Unscanned are the rules of the policies where nothing is scanned: whatever is reported of them is found elsewhere.
func Unscanned(s *catalog.Snapshot) Rules {
	k := rulesOf(s)
	for r := range k {
		k[r] = false
	}
	return k
}
