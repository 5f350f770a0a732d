package generating

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/value"
)

// template is a compiled template: YAML documents, each of which describes an object.
type template []node

// evaluator evaluates an expression.
type evaluator func(*run.Expression) (ref.Val, error)

// render returns the objects of the template. Empty documents result in no object.
func (t template) render(eval evaluator) ([]map[string]any, error) {
	out := make([]map[string]any, 0, len(t))
	for i, n := range t {
		v, err := n.render(eval)
		if err != nil {
			return out, fmt.Errorf("failed to render generation template: document %d: %w", i+1, err)
		}
		if object, ok := v.(map[string]any); ok { // the compiler rejects templates with other values
			out = append(out, object)
		}
	}
	return out, nil
}

// node is a part of a template.
type node interface {
	render(evaluator) (any, error)
}

// literal is a part without placeholders. All rendered objects share its value, which is never modified.
type literal struct{ value any }

func (l literal) render(evaluator) (any, error) { return l.value, nil }

// mapping and sequence are parts that contain placeholders.
type mapping []field

type field struct {
	name  string
	value node
}

func (m mapping) render(eval evaluator) (any, error) {
	out := make(map[string]any, len(m))
	for _, f := range m {
		v, err := f.value.render(eval)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.name, err)
		}
		out[f.name] = v
	}
	return out, nil
}

type sequence []node

func (s sequence) render(eval evaluator) (any, error) {
	out := make([]any, len(s))
	for i, n := range s {
		v, err := n.render(eval)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}

// placeholder is a scalar that consists of one expression; the value of the expression replaces it.
type placeholder struct {
	source     string
	expression *run.Expression
}

func (p placeholder) render(eval evaluator) (any, error) {
	v, err := eval(p.expression)
	if err != nil {
		if evaluation := (*env.EvaluationError)(nil); errors.As(err, &evaluation) {
			return nil, fmt.Errorf("failed to evaluate placeholder %q: %s", p.source, celpolicy.Text(err))
		}
		return nil, fmt.Errorf("failed to evaluate placeholder %q: %w", p.source, err)
	}
	out, err := values.Plain(v)
	if err != nil {
		return nil, fmt.Errorf("failed to convert placeholder %q result: %w", p.source, err)
	}
	return out, nil
}

// text is a scalar that contains expressions.
type text []piece

// piece is literal text, or an expression.
type piece struct {
	literal string
	placeholder
}

func (t text) render(eval evaluator) (any, error) {
	var out strings.Builder
	for _, p := range t {
		if p.expression == nil {
			out.WriteString(p.literal)
			continue
		}
		v, err := p.placeholder.render(eval)
		if err != nil {
			return nil, err
		}
		switch x := v.(type) {
		case string:
			out.WriteString(x)
		case bool, int64, uint64, float64:
			out.WriteString(value.JSON(x))
		default:
			return nil, fmt.Errorf("placeholder %q embedded in a string must evaluate to a scalar, got %T; use a whole-value placeholder for structured results", p.source, v)
		}
		if out.Len() > maxText {
			return nil, fmt.Errorf("the text is longer than %d bytes", maxText)
		}
	}
	return out.String(), nil
}

// maxText is the maximum size of a rendered text, in bytes. It exceeds the size that the API server accepts for an object.
const maxText = 2 << 20
