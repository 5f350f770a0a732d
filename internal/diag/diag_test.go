package diag

import "testing"

func TestList(t *testing.T) {
	var l List
	l.Warnf("spec.background", "slow")
	if l.HasErrors() || l.Err() != nil {
		t.Error("a warning is not an error")
	}
	l.Errorf("spec.rules[0]", "unknown field %q", "patern")
	l.Hint("did you mean %q?", "pattern")
	l[1].Pos = Position{File: "p.yaml", Line: 7}
	if got, want := l[1].String(), `p.yaml:7: spec.rules[0]: unknown field "patern" (did you mean "pattern"?)`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(l.Errors()) != 1 || len(l.Warnings()) != 1 || l.Err() == nil {
		t.Error("one error and one warning were added")
	}
	l[0].Pos = Position{File: "p.yaml", Line: 9}
	l.Sort()
	if l[0].Pos.Line != 7 {
		t.Error("not sorted by position")
	}
	for pos, want := range map[Position]string{{}: "", {File: "f"}: "f", {Line: 3}: "line 3", {File: "f", Line: 3}: "f:3"} {
		if got := pos.String(); got != want {
			t.Errorf("%+v: got %q, want %q", pos, got, want)
		}
	}
}
