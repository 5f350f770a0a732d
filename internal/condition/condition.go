package condition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/trace"
)

// Set holds the compiled conditions of one place in a policy. It is immutable and safe for concurrent use.
type Set struct {
	blocks     []block
	list       bool // written in the old form, as a plain list of conditions
	templates  []*template.Template
	deprecated diag.List
}

// block is an `any` and an `all`; both must hold. A missing `any` holds, an empty one does not.
type block struct {
	any, all []condition
	hasAny   bool
}

type condition struct {
	op         *Operator
	key, value *template.Template
	operand    operand            // the prepared value, if it is constant
	message    *template.Template // nil if there is none
	broken     error              // why the condition cannot be evaluated
	path       string             // the place in the policy
}

// Verdict is the outcome of an evaluation.
type Verdict struct {
	OK bool
	// Messages are the messages of the conditions that held if OK is true, otherwise of those that did not hold.
	Messages []string

	list bool
}

// Message joins the messages as Kyverno prints them: with "; ", or with ";" in the old list form.
func (v Verdict) Message() string {
	if v.list {
		return strings.Join(v.Messages, ";")
	}
	return strings.Join(v.Messages, "; ")
}

// Templates returns the keys, values and messages that contain variables, in document order, for the analysis of which
// variables the conditions read.
func (s *Set) Templates() []*template.Template { return s.templates }

// Roots lists the top-level names that the conditions may read, sorted; see template.Template.Roots.
func (s *Set) Roots() []string {
	var out []string
	for _, t := range s.templates {
		out = append(out, t.Roots()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Deprecated returns warnings about deprecated operators. Kyverno warns of them in deny rules, foreach and attestations,
// but not in the preconditions of a rule, so the caller decides.
func (s *Set) Deprecated() diag.List { return s.deprecated }

// Eval evaluates the conditions. It substitutes keys and values only as far as the verdict needs them. An error means
// that a variable could not be resolved (`failed to substitute variables in condition key: …`), or wraps
// budget.ErrExhausted or the context's error; then there is no verdict.
func (s *Set) Eval(env *jmespath.Env, root jmespath.Root) (Verdict, error) {
	v := Verdict{OK: true, list: s.list}
	for i := range s.blocks {
		ok, messages, err := s.blocks[i].eval(env, root, v.Messages)
		if err != nil {
			return Verdict{}, err
		}
		if !ok {
			return Verdict{Messages: messages, list: s.list}, nil
		}
		v.Messages = messages
	}
	return v, nil
}

// eval evaluates one block. held are the messages of the previous blocks; a block that holds appends its own messages, a
// block that does not hold returns only its own.
func (b *block) eval(env *jmespath.Env, root jmespath.Root, held []string) (bool, []string, error) {
	if b.hasAny {
		var failed []string
		found := false
		for i := range b.any {
			c := &b.any[i]
			ok, err := c.eval(env, root)
			if err != nil {
				return false, nil, err
			}
			if ok {
				held = c.say(held, env, root)
				found = true
				break
			}
			failed = c.say(failed, env, root)
		}
		if !found {
			// The outcome is known, but a variable in `all` that cannot be resolved is an error nevertheless.
			for i := range b.all {
				if ok, err := b.all[i].eval(env, root); err != nil {
					return false, nil, err
				} else if !ok {
					break
				}
			}
			return false, failed, nil
		}
	}
	for i := range b.all {
		c := &b.all[i]
		ok, err := c.eval(env, root)
		if err != nil {
			return false, nil, err
		}
		if !ok {
			return false, c.say(nil, env, root), nil
		}
		held = c.say(held, env, root)
	}
	return true, held, nil
}

func (c *condition) eval(env *jmespath.Env, root jmespath.Root) (bool, error) {
	if c.broken != nil {
		return false, c.broken
	}
	if env != nil {
		if err := env.Meter.Step(evaluateSteps); err != nil {
			return false, err
		}
	}
	key, err := c.key.Eval(env, root)
	if err != nil {
		return c.noted(env, key, nil, false, &SubstitutionError{Side: "key", Err: err})
	}
	right, value, err := c.right(env, root)
	if err != nil {
		return c.noted(env, key, nil, false, err)
	}
	var meter *budget.Meter
	if env != nil {
		meter = env.Meter
	}
	if err := walks(meter, key); err != nil {
		return c.noted(env, key, value, false, err)
	}
	ok, err := right.evaluateKey(meter, key)
	return c.noted(env, key, value, ok, err)
}

// evaluateSteps is the cost of evaluating one condition, without its texts and lists.
const evaluateSteps = 12

// noted returns the result of an evaluation, and records it if an explanation was requested.
func (c *condition) noted(env *jmespath.Env, key, value any, ok bool, err error) (bool, error) {
	if env == nil || env.Trace == nil {
		return ok, err
	}
	note := trace.Condition{
		Path: c.path, KeySource: c.key.Source(), Key: key, Operator: c.op.Name, ValueSource: c.value.Source(), Value: value, Holds: ok,
	}
	if err != nil {
		note.Error, note.Err = err.Error(), err
	}
	env.Trace.Condition(note)
	return ok, err
}

// right returns the value of the condition twice: prepared for comparing a key, and as it is.
func (c *condition) right(env *jmespath.Env, root jmespath.Root) (operand, any, error) {
	if c.operand != nil {
		return c.operand, c.value.Source(), nil
	}
	value, err := c.value.Eval(env, root)
	if err != nil {
		return nil, nil, &SubstitutionError{Side: "value", Err: err}
	}
	if env != nil {
		if err := walks(env.Meter, value); err != nil {
			return nil, nil, err
		}
		if err := env.Meter.Step(prepareSteps(value)); err != nil {
			return nil, nil, err
		}
	}
	return c.op.prepare(value, true), value, nil
}

// stepText is the number of bytes that an operator reads in one step.
const stepText = 32

// jsonSteps is the cost of a byte of JSON.
const jsonSteps = 4

// prepareSteps returns what preparing the value of a condition takes beside a walk: the elements of lists become texts, and texts that are
// JSON become lists.
func prepareSteps(v any) (n int) {
	switch v := v.(type) {
	case string:
		if s := strings.TrimLeft(v, " \t\r\n"); s != "" && strings.IndexByte(`[{"`, s[0]) >= 0 {
			return jsonSteps * len(s)
		}
	case []any:
		for _, element := range v {
			n += textSteps(element)
		}
	}
	return n
}

// walks counts the steps of a complete walk over v: an expression can create values that are small in memory but endless
// to walk over.
func walks(m *budget.Meter, v any) error {
	switch v := v.(type) {
	case string:
		return m.Step(1 + len(v)/stepText)
	case []any, map[string]any:
		return m.Walk(v)
	}
	return nil
}

// say appends the condition's message. If its variables cannot be resolved, it appends the source text: a message must
// not change the verdict.
func (c *condition) say(messages []string, env *jmespath.Env, root jmespath.Root) []string {
	if c.message == nil {
		return messages
	}
	text, err := c.message.EvalString(env, root)
	if err != nil {
		var other *template.NotStringError
		if errors.As(err, &other) {
			text = fmt.Sprint(other.Value)
		} else {
			text = fmt.Sprint(c.message.Source())
		}
	}
	return append(messages, text)
}

// SubstitutionError is the error for a variable in the key or value of a condition that could not be resolved. It
// unwraps to the template's error.
type SubstitutionError struct {
	Side string // key or value
	Err  error
}

func (e *SubstitutionError) Error() string {
	return "failed to substitute variables in condition " + e.Side + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *SubstitutionError) Unwrap() error { return e.Err }
