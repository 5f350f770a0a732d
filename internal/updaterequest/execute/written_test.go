package execute

import (
	"encoding/binary"
	"testing"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/policy"
)

// The annotation holds the changed targets of one request, up to a maximum. One that is damaged holds none.
func TestWrittenTargets(t *testing.T) {
	first, second := &kyvernov2.UpdateRequest{}, &kyvernov2.UpdateRequest{}
	for i, u := range []*kyvernov2.UpdateRequest{first, second} {
		u.Generation = int64(i + 1)
		u.Spec.Context.AdmissionRequestInfo.AdmissionRequest = &kyvernov2.AdmissionRequest{}
	}
	p := newProgress()
	if text := writtenText(first, p); text != "" {
		t.Errorf("nothing is changed: %q", text)
	}
	rule := kyvernov2.RuleContext{Rule: "r", Trigger: triggerOf("a", "x")}
	by := p.writtenBy(first, rule)
	object := func(uid string) *policy.Mutated {
		return &policy.Mutated{Before: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "uid": uid}}}
	}
	by.own[by.next(object("1"))] = true
	has := func(u *kyvernov2.UpdateRequest, rule kyvernov2.RuleContext, m *policy.Mutated) bool {
		later := newProgress()
		later.recorded = writtenIn(u)
		x := later.writtenBy(u, rule)
		return x.has(x.next(m))
	}
	text := writtenText(first, p)
	annotated := map[string]string{writtenAnnotation: text}
	first.Annotations, second.Annotations = annotated, annotated
	status := object("1")
	status.Subresource = "status"
	other := rule
	other.Trigger = triggerOf("b", "y")
	for name, c := range map[string]struct {
		got, want bool
	}{
		"the same":          {has(first, rule, object("1")), true},
		"another object":    {has(first, rule, object("2")), false},
		"its status":        {has(first, rule, status), false},
		"for another one":   {has(first, other, object("1")), false},
		"a later request":   {has(second, rule, object("1")), false},
		"a damaged content": {has(&kyvernov2.UpdateRequest{}, rule, object("1")), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", name, c.got)
		}
	}
	for i := range uint64(2 * maxWritten) {
		by.own[digest(binary.BigEndian.AppendUint64(nil, i))] = true
	}
	first.Annotations = map[string]string{writtenAnnotation: writtenText(first, p)}
	if got := len(writtenIn(first)); got != maxWritten {
		t.Errorf("%d targets are recorded", got)
	}
	for _, damaged := range []string{"", ":", "1:?", "1", "x:AAAA", "1:AAAA"} {
		first.Annotations = map[string]string{writtenAnnotation: damaged}
		if got := writtenIn(first); len(got) != 0 {
			t.Errorf("%q: %v", damaged, got)
		}
	}
}
