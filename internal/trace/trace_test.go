package trace

import (
	"errors"
	"testing"
)

func TestNilLogTakesNoNotes(t *testing.T) {
	var l *Log
	l.Begin("p", "r")
	l.Clause(Clause{})
	l.Condition(Condition{})
	l.Pattern(Pattern{})
	l.Query("x", 1, nil)
	l.Entry("x", 1, nil)
	l.Attestor(Attestor{})
	if n := testing.AllocsPerRun(10, func() { l.Query("x", nil, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	(&Log{}).Query("before any rule", 1, nil) // must not panic
}

func TestNotesAreBoundedAndNotRepeated(t *testing.T) {
	l := &Log{}
	l.Begin("p", "r")
	for range 3 {
		l.Query("a.b", map[string]any{"x": 1.0}, nil)
		l.Entry("e", nil, errors.New("no"))
	}
	l.Query("a.b", 2.0, nil)
	r := l.Rules[0]
	if len(r.Variables) != 2 || len(r.Context) != 1 || r.Context[0].Error != "no" {
		t.Errorf("%+v", r)
	}
	for range maxNotes + 7 {
		l.Clause(Clause{})
	}
	if len(r.Clauses) != maxNotes || r.Dropped != 7 {
		t.Errorf("%d clauses, %d dropped", len(r.Clauses), r.Dropped)
	}
	l.Begin("p", "other")
	l.Pattern(Pattern{Path: "x"})
	if len(r.Patterns) != 0 || len(l.Rules[1].Patterns) != 1 {
		t.Error("a note went to the wrong rule")
	}
}
