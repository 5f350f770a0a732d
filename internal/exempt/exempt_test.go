package exempt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
)

// one returns an exception whose name describes it: "no" does not match, "false" has conditions that are false, "error" has conditions
// without a value, "lost" a match that cannot be evaluated, "panic" and "loop" have conditions that panic and that never end, "part" is partial, "live" does not apply in scans, "pass" requests a pass, and
// "first" a pass with priority.
func one(name string) *policy.Exception {
	e := &policy.Exception{Namespace: "n", Name: name, Background: true}
	switch name {
	case "no":
		e.Match = func(context.Context, *policy.Request) (bool, error) { return false, nil }
	case "lost":
		e.Match = func(context.Context, *policy.Request) (bool, error) { return false, errors.New("roles are not known") }
	case "false", "error":
		e.Conditions = func(*policy.Call, policy.Variables) (bool, error) {
			if name == "error" {
				return false, errors.New("no such key")
			}
			return false, nil
		}
	case "panic":
		e.Conditions = func(*policy.Call, policy.Variables) (bool, error) { panic("a bug") }
	case "loop":
		e.Conditions = func(c *policy.Call, _ policy.Variables) (bool, error) {
			for {
				if err := c.Meter.Step(100); err != nil {
					return false, err
				}
			}
		}
	case "part":
		e.Partial = true
	case "live":
		e.Background = false
	case "pass":
		e.ReportPass = true
	case "first":
		e.ReportPass, e.Priority = true, 2
	}
	return e
}

func TestEvaluate(t *testing.T) {
	lenient := &Terms{Skipped: "skipped: "}
	parts := &Terms{Skipped: "skipped: ", InParts: true}
	first := &Terms{Skipped: "skipped: ", InParts: true, First: true}
	cel := &Terms{Skipped: "skipped: ", Passed: "passed: ", Part: "exception", InParts: true}
	strict := &Terms{Skipped: "skipped: ", InParts: true, Strict: true}
	for _, c := range []struct {
		what       string
		terms      *Terms
		exceptions string
		want       string
	}{
		{"no exception", lenient, "", "evaluate"},
		{"one that matches", lenient, "x", "skip skipped: n/x"},
		{"several", lenient, "x y", "skip skipped: n/x, n/y"},
		{"none applies", lenient, "no false", "evaluate"},
		{"one that cannot be evaluated does not apply", lenient, "error lost", "evaluate, not evaluated n/error: no such key, n/lost: roles are not known"},
		{"another beside it does", lenient, "error x", "skip skipped: n/x, not evaluated n/error: no such key"},
		{"a pass is not known", lenient, "pass", "skip skipped: n/pass"},
		{"the rule has no parts", lenient, "part", "skip skipped: n/part"},
		{"the rule has parts", parts, "part", "evaluate with n/part"},
		{"a whole exemption beside a partial one", parts, "part x y", "skip skipped: n/x, n/y"},
		{"only the first is named", first, "part x y", "skip skipped: n/x"},
		{"an error after a partial one", parts, "part error", "evaluate with n/part, not evaluated n/error: no such key"},
		{"a condition that panics", lenient, "panic x", "skip skipped: n/x, not evaluated n/panic: the exception panicked: a bug"},
		{"a condition that uses up its budget", lenient, "loop x", "skip skipped: n/x, not evaluated n/loop: evaluation budget exhausted: more than 250000 steps"},
		{"an evaluation whose time is over", lenient, "late x", "context canceled"},
		{"strict: an error", strict, "error", "no such key, not evaluated n/error: no such key"},
		{"strict: another one exempts", strict, "error x", "skip skipped: n/x, not evaluated n/error: no such key"},
		{"strict: an error after a partial one", strict, "part error", "no such key, not evaluated n/error: no such key"},
		{"the first decides on the report", cel, "x pass", "skip skipped: n/x, n/pass exception"},
		{"the first wants a pass", cel, "pass x", "pass passed: n/pass, n/x exception"},
		{"the highest priority decides", cel, "x first", "pass passed: n/x, n/first exception"},
		{"not in a scan", cel, "live", "evaluate"},
	} {
		t.Run(c.what, func(t *testing.T) {
			rule := &policy.Rule{}
			for name := range strings.FieldsSeq(c.exceptions) {
				rule.Exceptions = append(rule.Exceptions, one(name))
			}
			request := &policy.Request{Review: policy.Review{Origin: policy.FromAdmission}}
			if c.exceptions == "live" {
				request.Origin = policy.FromScan
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, e := range rule.Exceptions {
				if e.Name == "late" {
					e.Conditions = func(*policy.Call, policy.Variables) (bool, error) { cancel(); return false, errors.New("no answer") }
				}
			}
			env := &evalenv.Env{Meter: budget.New(ctx, 1000, 1000)}
			call := &policy.Call{Env: env, Rule: rule, Request: request, Exceptions: &policy.ForExceptions{Errors: &[]policy.ExceptionError{}}}
			verdict, err := c.terms.Evaluate(call, nil)
			if steps, bytes := env.Meter.Used(); steps+bytes > 0 {
				t.Errorf("the rule pays %d steps and %d bytes for its exceptions", steps, bytes)
			}
			got := "evaluate"
			switch {
			case err != nil:
				got = err.Error()
			case verdict == nil:
			case verdict.Exempt:
				got = strings.TrimSpace(fmt.Sprint(verdict.Result.Status, " ", verdict.Result.Message, " ", verdict.Result.Part))
				if len(verdict.Result.Exceptions) == 0 {
					t.Error("the result does not name its exceptions")
				}
			default:
				got = "evaluate with " + strings.Join(policy.ExceptionKeys(verdict.Partial), ", ")
			}
			for i, e := range *call.Exceptions.Errors {
				got += []string{", not evaluated ", ", "}[min(i, 1)] + e.Exception.Key() + ": " + e.Message
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// paying is a pacer that counts the steps, and refuses work once they are more than left.
type paying struct{ steps, left *int64 }

func (p paying) Pace(_ context.Context, steps int64) error {
	if p.Spend(steps); *p.steps > *p.left {
		return budget.ErrExhausted
	}
	return nil
}
func (p paying) Spend(steps int64) { *p.steps += steps }
func (p paying) Done()             {}

// T8: the conditions of exceptions are charged to the namespace of the exception. Without a share, an exception exempts nothing.
func TestT8ConditionsAreCharged(t *testing.T) {
	terms := &Terms{Skipped: "skipped: "}
	steps, left := int64(0), int64(2000)
	e := one("x")
	e.Conditions = func(c *policy.Call, _ policy.Variables) (bool, error) { return true, c.Meter.Step(1500) }
	plain := one("no")
	call := &policy.Call{
		Env: &evalenv.Env{Meter: budget.New(t.Context(), 1000, 1000)}, Rule: &policy.Rule{Exceptions: []*policy.Exception{plain, e}}, Request: &policy.Request{},
		Exceptions: &policy.ForExceptions{
			Errors: &[]policy.ExceptionError{},
			Pace: func(of *policy.Exception, _ *policy.Request) budget.Pacer {
				if of == plain {
					t.Error("an exception without conditions is charged")
				}
				return paying{&steps, &left}
			},
		},
	}
	for i, want := range []bool{true, false, false} {
		verdict, err := terms.Evaluate(call, nil)
		if err != nil || (verdict != nil && verdict.Exempt) != want {
			t.Errorf("evaluation %d after %d steps: %+v, %v", i, steps, verdict, err)
		}
	}
	if n := len(*call.Exceptions.Errors); n != 2 || steps != 3000 {
		t.Errorf("%d errors, %d steps", n, steps)
	}
}
