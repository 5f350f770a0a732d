package celrule

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
)

// Rule is a compiled rule. It is immutable and safe for concurrent use.
type Rule struct {
	Named       *run.Variables
	Conditions  Conditions
	Validations []Validation
	Annotations []Annotation
	// Options are those of the rule's language.
	Options Options
}

// Validation is one expression that must hold.
type Validation struct {
	Source     string // the expression, without white space around it
	Message    string // "" if the author wrote none
	expression *run.Expression
	messageOf  *run.Expression // nil if the author wrote no messageExpression, or an invalid one
}

// Annotation is one audit annotation.
type Annotation struct {
	Key   string
	value *run.Expression
	// qualified: the API server accepts the key for the audit event of a request.
	qualified bool
}

// Outcome is the outcome of the validations and annotations of a rule.
type Outcome struct {
	// Failed is the first validation that does not hold or cannot be evaluated; nil if all hold.
	Failed *Validation
	// Index is the position of Failed.
	Index int
	// Message is the result of its messageExpression, if that is a single line of acceptable length, otherwise its message;
	// "" for none.
	Message string
	// MessageError is the reason why its messageExpression could not be evaluated (Options.StrictTexts).
	MessageError error
	// Annotations are the values of the audit annotations that have a value.
	Annotations map[string]string
}

// Applies reports whether the match conditions hold.
func (r *Rule) Applies(ctx context.Context, m *budget.Meter, in *run.Input) (bool, error) {
	return r.Conditions.Hold(ctx, m, r.Named, in)
}

// Check evaluates the validations in order, up to the first that does not hold, and then the audit annotations. The error is
// that of the validation or annotation that could not be evaluated, an *AnnotationError for the latter.
func (r *Rule) Check(ctx context.Context, m *budget.Meter, in *run.Input) (Outcome, error) {
	e := begin(ctx, m, r.Named, in, price.Budget)
	out, err := r.check(e)
	return out, e.finish(err)
}

func (r *Rule) check(e evaluation) (out Outcome, err error) {
	for i := range r.Validations {
		v := &r.Validations[i]
		ok, err := e.Bool(v.expression)
		if err != nil {
			return Outcome{Failed: v, Index: i}, err
		}
		if !ok {
			out.Failed, out.Index = v, i
			out.Message, out.MessageError = v.message(e, r.Options)
			break
		}
	}
	out.Annotations, err = r.annotations(e)
	return out, err
}

// Violation is a validation that does not hold: its position, and its message for the object.
type Violation struct {
	Index   int
	Message string
}

// Failures returns all validations that do not hold, or none if the match conditions do not hold. The error is that of an expression that
// cannot be evaluated.
func (r *Rule) Failures(ctx context.Context, m *budget.Meter, in *run.Input) ([]Violation, error) {
	if applies, err := r.Applies(ctx, m, in); err != nil || !applies {
		return nil, err
	}
	e := begin(ctx, m, r.Named, in, price.Budget)
	out, err := r.failures(e)
	return out, e.finish(err)
}

func (r *Rule) failures(e evaluation) (out []Violation, err error) {
	for i := range r.Validations {
		v := &r.Validations[i]
		ok, err := e.Bool(v.expression)
		if err != nil {
			return nil, err
		}
		if !ok {
			text, _ := v.message(e, r.Options)
			out = append(out, Violation{i, text})
		}
	}
	return out, nil
}

func (r *Rule) annotations(e evaluation) (map[string]string, error) {
	var out map[string]string
	for _, a := range r.Annotations {
		v, err := e.Value(a.value)
		if err != nil {
			return out, &AnnotationError{Key: a.Key, Err: err}
		}
		text, ok := v.Value().(string)
		if !ok && r.Options.StrictTexts && v.Type() != types.NullType { // null means no annotation
			return out, &AnnotationError{Key: a.Key, Type: v.Type().TypeName()}
		}
		if text = strings.TrimSpace(text); ok && text != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[a.Key] = text
		}
	}
	return out, nil
}

// Audited returns the values of annotations that are allowed in the audit event of a request.
func (r *Rule) Audited(values map[string]string) map[string]string {
	shared := true
	for _, a := range r.Annotations {
		if _, has := values[a.Key]; !has || a.qualified {
			continue
		}
		if shared {
			values, shared = maps.Clone(values), false
		}
		delete(values, a.Key)
	}
	return values
}

func (v *Validation) message(e evaluation, o Options) (string, error) {
	if v.messageOf != nil {
		text, ok, err := e.Text(v.messageOf)
		if o.StrictTexts {
			return text, err
		}
		text = strings.TrimSpace(text)
		if err == nil && ok && text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
			return text, nil
		}
	}
	return v.Message, nil
}

// Fallback returns the API server's message for a validation without one.
func (v *Validation) Fallback() string { return "failed expression: " + v.Source }

// AnnotationError is the error for an audit annotation that could not be evaluated.
type AnnotationError struct {
	Key string
	Err error
	// Type is the type of a value that is not a text; empty if there is no value.
	Type string
}

func (e *AnnotationError) Error() string {
	if e.Type != "" {
		return fmt.Sprintf("failed to convert auditAnnotation '%s' expression: type conversion error from '%s' to 'string'", e.Key, e.Type)
	}
	return fmt.Sprintf("failed to evaluate auditAnnotation '%s': %v", e.Key, e.Err)
}

// Unwrap returns the error of the expression.
func (e *AnnotationError) Unwrap() error { return e.Err }
