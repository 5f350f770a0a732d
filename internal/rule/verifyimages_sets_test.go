package rule

import (
	"errors"
	"testing"

	"ephor.invalid/ephor/internal/policy"
)

// A set that a variable leaves without entries accepts no signature, and it is not known who should sign.
func TestSetWithoutEntries(t *testing.T) {
	empty := attestorSet{Path: ".attestors[0]"}
	all := attestorSet{Required: 1, Entries: []signer{{Set: &empty}}}
	for _, set := range []*attestorSet{&empty, &all} {
		r := set.satisfy(func(*signer) error { return nil })
		if y := r.yield("failed: "); r.ok() || y.Status != policy.StatusError || y.Message != "failed: .attestors[0]: An entry is required" {
			t.Errorf("%+v: %+v", set, y)
		}
		if !errors.Is(errors.Join(r.Errors...), errNoEntries) {
			t.Errorf("%v", r.Errors)
		}
	}
}
