package template

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
)

// piece is a part of a text: a literal, or one outermost variable with everything nested in it.
type piece struct {
	literal string
	node    node // nil for a literal
}

// pieces splits a text at its outermost variables. It resolves escapes in the literals.
func (c *compiler) pieces(s string, at position) []piece {
	var out []piece
	literal := ""
	rest := 0
	for _, v := range outermost(s) {
		literal += s[rest:v.from]
		rest = v.to
		if v.escape {
			literal += s[v.from+1 : v.to]
			continue
		}
		if literal != "" {
			out = append(out, piece{literal: literal})
			literal = ""
		}
		out = append(out, piece{node: c.text(s[v.from:v.to], at)})
	}
	if literal += s[rest:]; literal != "" {
		out = append(out, piece{literal: literal})
	}
	return out
}

// outer is an outermost variable of a text, or an escape with its backslash.
type outer struct {
	span
	escape bool
}

// outermost finds the outermost variables of s, and the escapes, from left to right.
func outermost(s string) []outer {
	if !strings.Contains(s, "{{") {
		return nil
	}
	var out []outer
	work := []byte(s)
	for range maxRounds {
		tokens := scan(string(work), nil)
		if len(tokens) == 0 {
			break
		}
		for _, t := range tokens {
			out = slices.DeleteFunc(out, func(o outer) bool { return o.from >= t.from && o.to <= t.to })
			out = append(out, outer{span: t.span})
			for i := t.from; i < t.to; i++ {
				work[i] = taken
			}
		}
	}
	text := string(work)
	for i := 0; ; {
		at := strings.Index(text[i:], `\{{`)
		if at < 0 {
			break
		}
		i += at
		if end, ok := variableEnd(text, i+1, nil); ok {
			out = slices.DeleteFunc(out, func(o outer) bool { return o.from >= i && o.to <= end })
			out = append(out, outer{span: span{i, end}, escape: true})
			i = end
		} else {
			i++
		}
	}
	slices.SortFunc(out, func(a, b outer) int { return a.from - b.from })
	return out
}

// taken replaces the bytes of variables. It is neither a brace nor a byte of any UTF-8 text.
const taken = 0xff

// joined is a text made of pieces.
type joined struct {
	pieces []piece
	scalar bool // maps and lists are an error
}

func (j *joined) eval(r run) (any, error) {
	return j.join(r, func(_ int, text string) (string, error) { return text, nil })
}

// join evaluates the variables and inserts the result of write for each. write receives the number of the piece and the value
// as text.
func (j *joined) join(r run, write func(i int, text string) (string, error)) (string, error) {
	var b strings.Builder
	for i := range j.pieces {
		p := &j.pieces[i]
		if p.node == nil {
			b.WriteString(p.literal)
			continue
		}
		v, err := p.node.eval(r)
		if err != nil {
			return "", err
		}
		if kind := kindOf(v); kind != "scalar" {
			if j.scalar {
				return "", &ScalarError{kind}
			}
			if err := r.charge(v); err != nil {
				return "", err
			}
		}
		text, err := write(i, textOf(v))
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), r.meter().Bytes(b.Len())
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "map"
	case []any:
		return "list"
	}
	return "scalar"
}

// Text is a text into which the values of variables are inserted one by one: data cannot become a part of the text around it.
type Text struct {
	*Template
	joined joined
}

// CompileText compiles a text. Like Compile it never fails.
func CompileText(s string, o Options) *Text {
	t := Compile(s, o)
	c := &compiler{t: &Template{}, seen: map[string]bool{}} // Compile recorded the reads
	return &Text{Template: t, joined: joined{pieces: c.pieces(s, position{path: o.Path}), scalar: true}}
}

// Pieces returns the literals of the text, in order, with an empty one for each variable.
func (t *Text) Pieces() []string {
	out := make([]string, len(t.joined.pieces))
	for i, p := range t.joined.pieces {
		out[i] = p.literal
	}
	return out
}

// Join returns the text with the result of write for each variable. write receives the number of the variable among Pieces, its
// value as text, and whether the author of the template wrote the value. A value that is a map or a list is a *ScalarError.
func (t *Text) Join(env *jmespath.Env, root jmespath.Root, write func(piece int, text string, authored bool) (string, error)) (string, error) {
	r := run{env, root}
	return t.joined.join(r, func(i int, text string) (string, error) {
		return write(i, text, t.joined.pieces[i].authored(r))
	})
}

// authored reports whether the value of the variable is text of the author.
func (p *piece) authored(r run) bool {
	v, ok := p.node.(*variable)
	return ok && r.authored(v.roots)
}
