package testrun

import (
	"fmt"

	"ephor.invalid/ephor/internal/policy"
)

// checkTarget compares the expectation with the result of rules for existing objects on one object, whichever resource
// triggered them. It reports whether any such rule evaluated the object.
func (r *testRun) checkTarget(e *wantedResult, i int) bool {
	target, applied := r.resources[i], false
	for _, answers := range r.answers[policy.Operation(e.Operation)] {
		for k := range answers {
			a := &answers[k]
			if a.Program.Name != e.policy || !a.Stage.Has(policy.StageMutateExisting) {
				continue
			}
			for _, w := range a.Work {
				if w.Kind != policy.WorkMutateExisting || !r.covers(e, a.Program, w.Rule) {
					continue
				}
				for _, t := range w.Targets {
					if newTestObject(t.Before).key() != target.key() {
						continue
					}
					applied = true
					r.checkMutated(e, target, &w, &t)
				}
			}
		}
	}
	return applied
}

func (r *testRun) checkMutated(e *wantedResult, target *testObject, w *policy.Work, t *policy.Mutated) {
	row := testRow{Rule: w.Rule.Name, Resource: target.String(), Message: t.Message}
	if e.PatchedResources != "" {
		got := t.After
		if got == nil {
			got = t.Before
		}
		if failed, kept := r.compareWith(e, &row, got); failed || !kept {
			if kept {
				e.add(row)
			}
			return
		}
	}
	e.evaluate(&row, t.Status.String())
	e.add(row)
}

// checkGenerated compares the objects that a generate rule creates with the expected ones, with one row for each. If
// there is no object, or nothing to compare it with, it does nothing and returns false.
func (r *testRun) checkGenerated(e *wantedResult, result *policy.Result) bool {
	files := r.within(append([]string{e.GeneratedResource}, e.GeneratedResources...)...)
	var made []policy.Generated
	var err error
	for _, w := range result.Work {
		if w.Kind == policy.WorkGenerate {
			made = append(made, w.Generated...)
			if w.Err != nil {
				err = w.Err
			}
		}
	}
	if err != nil {
		result.Status, result.Message = policy.StatusError, err.Error()
		return false
	}
	if len(files) == 0 {
		return false
	}
	if len(made) == 0 {
		if result.Status == policy.StatusPass {
			r.doubt(e, reasonNotCompared, "", "the rule %s generates nothing, so nothing was compared", result.Rule.Name)
		}
		return false
	}
	var wanted []map[string]any
	for _, f := range files {
		objects, err := r.expected(f)
		if err != nil {
			row := testRow{Rule: result.Rule.Name}
			resourceError(&row, err)
			e.add(row)
			return true
		}
		wanted = append(wanted, objects...)
	}
	for _, g := range made {
		got := newTestObject(g.Object)
		row := testRow{Rule: result.Rule.Name, Resource: got.name, Message: result.Message}
		want := counterpart(got, wanted)
		switch {
		case want == nil:
			resourceError(&row, fmt.Errorf("the generated object %s is not among the expected ones", got))
			row.got = yamlText(g.Object)
		case difference(&row, want, g.Object):
		default:
			e.evaluate(&row, Status(result))
		}
		e.add(row)
	}
	return true
}

// counterpart returns the expected object for a generated one: the object with the same name, or else the only expected object.
func counterpart(got *testObject, wanted []map[string]any) map[string]any {
	for _, w := range wanted {
		if newTestObject(w).String() == got.String() {
			return w
		}
	}
	if len(wanted) == 1 {
		return wanted[0]
	}
	return nil
}
