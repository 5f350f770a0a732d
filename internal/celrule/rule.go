package celrule

import (
	"context"
	"fmt"
	"strings"

	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/celenv"
)

// Rule is a compiled rule. It is immutable and safe for all goroutines.
type Rule struct {
	Named       *celenv.Variables
	Conditions  Conditions
	Validations []Validation
	Annotations []Annotation
}

// Validation is one expression that has to hold.
type Validation struct {
	Source     string // the expression, without white space around it
	Message    string // "" when the author wrote none
	expression *celenv.Expression
	messageOf  *celenv.Expression // nil when the author wrote no messageExpression, or one with mistakes
}

// Annotation is one audit annotation.
type Annotation struct {
	Key   string
	value *celenv.Expression
}

// Outcome is what the validations and annotations of a rule give.
type Outcome struct {
	// Failed is the first validation that does not hold, or has no value; nil when all hold.
	Failed *Validation
	// Message is what its messageExpression gives, if that is one line of decent length, else its message; "" for none.
	Message string
	// Annotations are the values of the audit annotations that have one.
	Annotations map[string]string
}

// Applies reports whether the match conditions hold.
func (r *Rule) Applies(ctx context.Context, m *budget.Meter, in *celenv.Input) (bool, error) {
	return r.Conditions.Hold(ctx, m, r.Named, in)
}

// Check evaluates the validations in order, up to the first that does not hold, and then the audit annotations. The error is
// that of the validation or annotation that has no value, an *AnnotationError for the latter.
func (r *Rule) Check(ctx context.Context, m *budget.Meter, in *celenv.Input) (Outcome, error) {
	e := begin(ctx, m, r.Named, in, celenv.Budget)
	out, err := r.check(e)
	return out, e.end(err)
}

func (r *Rule) check(e evaluation) (out Outcome, err error) {
	for i := range r.Validations {
		v := &r.Validations[i]
		ok, err := e.Bool(v.expression)
		if err != nil {
			return Outcome{Failed: v}, err
		}
		if !ok {
			out.Failed, out.Message = v, v.message(e)
			break
		}
	}
	for _, a := range r.Annotations {
		text, ok, err := e.Text(a.value)
		if err != nil {
			return out, &AnnotationError{a.Key, err}
		}
		if text = strings.TrimSpace(text); ok && text != "" {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[a.Key] = text
		}
	}
	return out, nil
}

func (v *Validation) message(e evaluation) string {
	if v.messageOf != nil {
		text, ok, err := e.Text(v.messageOf)
		text = strings.TrimSpace(text)
		if err == nil && ok && text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
			return text
		}
	}
	return v.Message
}

// Fallback is the message of the API server for a validation without one.
func (v *Validation) Fallback() string { return "failed expression: " + v.Source }

// AnnotationError says that an audit annotation has no value.
type AnnotationError struct {
	Key string
	Err error
}

func (e *AnnotationError) Error() string {
	return fmt.Sprintf("failed to evaluate auditAnnotation '%s': %v", e.Key, e.Err)
}

// Unwrap gives the error of the expression.
func (e *AnnotationError) Unwrap() error { return e.Err }
