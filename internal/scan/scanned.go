package scan

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/report"
)

// Scanned are the kinds whose objects are judged, and judged again when they change: those that may be listed.
func (s *Scanner) Scanned() []schema.GroupKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []schema.GroupKind
	for _, l := range s.loops {
		if l.judged.Load() {
			out = append(out, l.set.Load().resource.GVK().GroupKind())
		}
	}
	return out
}

// Live reports of the policies which of their rules exist and are reported.
func Live(s *catalog.Snapshot) func(report.Rule) bool { return rulesOf(s).Live }

// Unscanned are the rules of the policies where nothing is scanned: whatever is reported of them is found elsewhere.
func Unscanned(s *catalog.Snapshot) Rules {
	k := rulesOf(s)
	for r := range k {
		k[r] = false
	}
	return k
}

// covers reports whether scans judge the objects that the target names: as wholes, as if they were created.
func covers(t *policy.Target) bool {
	return t.Subresource == "" && (len(t.Operations) == 0 || slices.Contains(t.Operations, policy.Create))
}
