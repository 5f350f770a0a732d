package template

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/value"
)

// text compiles a string; the result is nil if it needs no evaluation.
func (c *compiler) text(s string, at position) node {
	if !strings.Contains(s, "{{") {
		return nil
	}
	tokens := scan(s, nil)
	if len(tokens) == 0 {
		if plain, _ := unescape(s, nil); plain != s {
			return constant{plain}
		}
		return nil
	}
	variables := make([]variable, len(tokens))
	for i, t := range tokens {
		variables[i] = newVariable(t, at, c.allowance)
		v := &variables[i]
		if v.err != nil {
			c.t.diags.Errorf(at.path, "failed to resolve %s at path %s: %s", v.source, at.path, v.err)
			if mistake := (*jmespath.SyntaxError)(nil); errors.As(v.err, &mistake) {
				c.t.diags.Hint("%s", mistake.Hint())
			}
			continue
		}
		c.addExpression(v.expr)
		if v.target != nil {
			c.addExpression(v.target)
		}
	}
	if len(tokens) == 1 && tokens[0].span == (span{0, len(s)}) {
		return &variables[0]
	}
	t := &text{at: at, parts: make([]part, 0, 2*len(tokens)+1)}
	rest := 0
	for i, tok := range tokens {
		t.literal(s[rest:tok.from])
		t.parts = append(t.parts, part{variable: &variables[i]})
		rest = tok.to
	}
	t.literal(s[rest:])
	c.foresee(s, tokens)
	return t
}

func (t *text) literal(s string) {
	if s == "" {
		return
	}
	t.parts = append(t.parts, part{literal: s})
	t.braces = t.braces || strings.Contains(s, "{{")
}

// foresee records what the outer expressions of nested variables will read, by compiling them with a stand-in for the inner
// ones. The value of an inner variable can turn this into another expression, which then finds only what happens to be loaded.
func (c *compiler) foresee(s string, tokens []token) {
	for range maxRounds {
		var b strings.Builder
		rest := 0
		for _, t := range tokens {
			b.WriteString(s[rest:t.from])
			b.WriteByte('x')
			rest = t.to
		}
		b.WriteString(s[rest:])
		s = b.String()
		if tokens = scan(s, nil); len(tokens) == 0 {
			return
		}
		c.t.nested = true
		for _, t := range tokens {
			e, err := compile(c.allowance, t.expr)
			if err != nil {
				c.noteRoot("*")
				continue
			}
			c.addExpression(e)
		}
	}
}

// eval implements node: the whole string is one variable, so its typed value replaces it.
func (v *variable) eval(r run) (any, error) {
	if err := r.meter().Step(variableSteps); err != nil {
		return nil, err
	}
	return v.resolve(r.env, r.root)
}

// evalData is eval, and also reports that a text is data.
func (v *variable) evalData(r run) (any, []span, error) {
	val, err := v.eval(r)
	if err != nil {
		return nil, nil, err
	}
	if s, ok := val.(string); ok && v.freezes(r, val) {
		return val, []span{{0, len(s)}}, nil
	}
	return val, nil, nil
}

// variableSteps is the cost of a variable in addition to that of its expression.
const variableSteps = 8

// constant is a string that contained only escapes.
type constant struct{ s string }

func (c constant) eval(run) (any, error) { return c.s, nil }

// text is a string of literals and variables.
type text struct {
	at     position
	parts  []part
	braces bool // some literal contains braces: the outer ones of nested variables, or an escape
}

type part struct {
	literal  string
	variable *variable // nil for a literal
}

func (t *text) eval(r run) (any, error) {
	if !t.braces { // the common case: if no value has braces, it does not matter which parts are data
		s, err := t.plain(r)
		if err != nil || !strings.Contains(s, "{{") {
			return s, err
		}
	}
	v, _, err := t.evalData(r)
	return v, err
}

// plain returns the text without scanning it for variables again.
func (t *text) plain(r run) (string, error) {
	var b strings.Builder
	for i := range t.parts {
		p := &t.parts[i]
		if p.variable == nil {
			b.WriteString(p.literal)
			continue
		}
		v, err := p.variable.eval(r)
		if err == nil {
			err = r.charge(v)
		}
		if err == nil {
			err = p.variable.embed(&b, v)
		}
		if err != nil {
			return "", err
		}
	}
	return b.String(), r.meter().Bytes(b.Len())
}

// evalData is eval, and also returns which parts of a text are data.
func (t *text) evalData(r run) (any, []span, error) {
	var b strings.Builder
	var few [4]span // most texts have few variables
	frozen := few[:0]
	again := t.braces
	for i := range t.parts {
		p := &t.parts[i]
		if p.variable == nil {
			b.WriteString(p.literal)
			continue
		}
		if err := r.meter().Step(variableSteps); err != nil {
			return nil, nil, err
		}
		v, err := p.variable.resolve(r.env, r.root)
		if err != nil {
			return nil, nil, err
		}
		from := b.Len()
		if err := r.charge(v); err != nil {
			return nil, nil, err
		}
		if err := p.variable.embed(&b, v); err != nil {
			return nil, nil, err
		}
		// Who wrote a value only matters if the value is inside a variable, or contains one.
		braces := strings.Contains(b.String()[from:], "{{")
		if !t.braces && !braces || p.variable.freezes(r, v) {
			frozen = append(frozen, span{from, b.Len()})
		} else {
			again = again || braces
		}
	}
	s := b.String()
	if err := r.meter().Bytes(len(s)); err != nil {
		return nil, nil, err
	}
	if !again {
		return s, frozen, nil
	}
	return rescan(r, s, frozen, t.at)
}

// errShallowValue is the error in a case in which Kyverno panics.
var errShallowValue = errors.New("the value of a {{- }} variable inside text must be a string")

// embed writes the value of the variable into text.
func (v *variable) embed(b *strings.Builder, val any) error {
	s, ok := val.(string)
	if !ok && v.shallow {
		return &ResolveError{Variable: v.source, Path: v.path, Err: errShallowValue}
	}
	if !ok {
		s = textOf(val)
	}
	b.WriteString(s)
	return nil
}

// textOf returns v as a part of text: strings unchanged, numbers without exponent, everything else as JSON.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
	case nil:
		return "null"
	}
	return value.JSON(v)
}
