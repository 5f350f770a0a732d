package celrule

import (
	"context"

	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
)

// Run is one evaluation of the expressions of a rule. It evaluates a variable at most once, even if mutations change the object meanwhile.
// It belongs to one goroutine.
type Run struct {
	evaluation
	rule    *Rule
	object  any
	charged int64
}

// Begin starts a Run.
func (r *Rule) Begin(ctx context.Context, m *budget.Meter, in *run.Input) *Run {
	return &Run{evaluation: begin(ctx, m, r.Named, in, price.Budget), rule: r, object: in.Object}
}

// Object returns the object with all mutations so far.
func (r *Run) Object() any { return r.object }

// Applies reports whether the match conditions hold. It evaluates all of them; a false condition decides, even if others could not be
// evaluated.
func (r *Run) Applies() (bool, error) {
	ok, err := r.rule.Conditions.holdAll(r.evaluation)
	return ok, r.charge(err)
}

// Check evaluates the validations and the audit annotations, as Rule.Check does.
func (r *Run) Check() (Outcome, error) {
	out, err := r.rule.check(r.evaluation)
	return out, r.charge(err)
}

// Failures returns all validations that do not hold, as Rule.Failures does. It does not evaluate the match conditions.
func (r *Run) Failures() ([]Violation, error) {
	out, err := r.rule.failures(r.evaluation)
	return out, r.charge(err)
}

// Mutate applies one mutation to the object.
func (r *Run) Mutate(mutation Mutation, how Merging) error {
	object, ok := r.object.(map[string]any)
	if !ok {
		return errNoObject
	}
	made, err := r.Value(mutation.expression)
	if err = r.charge(err); err != nil {
		return err
	}
	out, err := mutation.on(r.meter, made, r.Size(made), object, how)
	if err != nil {
		return err
	}
	r.object = out
	r.Rebind(out)
	return nil
}

// Annotations evaluates the audit annotations. The error is an *AnnotationError.
func (r *Run) Annotations() (map[string]string, error) {
	out, err := r.rule.annotations(r.evaluation)
	return out, r.charge(err)
}

// Evaluate evaluates an expression of the rule.
func (r *Run) Evaluate(x *run.Expression) (ref.Val, error) {
	v, err := r.Value(x)
	return v, r.charge(err)
}

// charge charges the cost of the expressions since the last charge. It returns the error of the budget if that is exhausted, otherwise err.
func (r *Run) charge(err error) error {
	r.recordExceeded()
	spent := r.Spent()
	over := r.meter.Beside(spent - r.charged)
	r.charged = spent
	if over != nil {
		return over
	}
	return err
}

// holdAll evaluates all conditions: a false condition decides, even before or after an error.
func (c Conditions) holdAll(e evaluation) (bool, error) {
	var failures Failures
	holds := true
	for _, x := range c {
		ok, err := e.Bool(x)
		switch {
		case budget.Over(err):
			return false, err
		case err != nil:
			failures = append(failures, err)
		case !ok:
			holds = false
		}
	}
	if holds && len(failures) > 0 {
		return false, failures
	}
	return holds, nil
}
