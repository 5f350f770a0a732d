package follow

import (
	"slices"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// See notes the generate rules that were deleted since the last call. It is called after each change of the policies, also during a round of
// Once: a rule that is created and deleted during a round is in no snapshot of a round, and would never be in the record of rules. It does
// not block.
func (f *Follower) See(s *catalog.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.seen
	if f.seen = s; before == nil {
		return
	}
	for _, p := range before.Programs() {
		if s.Get(catalog.IDOf(p)) == p {
			continue
		}
		for _, e := range origin.DefinitionsOf(p) {
			if e.Synchronize && !isBack(s, e) {
				f.passed = append(slices.DeleteFunc(f.passed, func(x origin.Definition) bool { return x.Rule() == e.Rule() }), e)
			}
		}
	}
	if n := len(f.passed) - maxAgain; n > 0 {
		f.passed = f.passed[n:]
	}
}

// withPassed returns the rules of the record, and those deleted since the last round that are not in it.
func (f *Follower) withPassed(rules []origin.Definition) []origin.Definition {
	f.mu.Lock()
	passed := f.passed
	f.passed = nil
	f.mu.Unlock()
	return origin.Union(rules, slices.DeleteFunc(passed, func(e origin.Definition) bool { return isBack(f.settled, e) }))
}

// hasPassed reports whether one of the rules that the next round handles is the given one.
func (f *Follower) hasPassed(is func(origin.Definition) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.passed, is)
}
