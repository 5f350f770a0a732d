package jmespath

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/value"
)

// Span is a piece of a text: text[From:To].
type Span struct{ From, To int }

// Quoting defines which parts of an expression's text are data. Data are never syntax: within '…', "…" and `…` they are
// content, whatever characters they contain, and elsewhere they are a name after a dot, a part of a name, or a number.
// Anything else is a *SyntaxError.
type Quoting struct {
	// Data are the parts of the text that are data, sorted and disjoint. An empty part marks the place of empty data.
	Data []Span
	// Names allows data to be the first name of a path. It is for expressions over their own data: in expressions over the
	// variables of a rule, data would choose which variable is read.
	Names bool
}

// CompileQuoting is Compile for an expression that contains data.
func CompileQuoting(src string, q Quoting) (*Expr, error) { return CompileWithin(nil, src, q) }

// CompileWithin is CompileQuoting for an expression of a policy. Its regular expressions are charged to the allowance before they are
// compiled; a *compilecost.Error means that they cost too much.
func CompileWithin(a *compilecost.Allowance, src string, q Quoting) (*Expr, error) {
	n, err := parse(src, q)
	if err != nil {
		return nil, err
	}
	var cost compilecost.Cost
	n.literals(&cost)
	if err := a.Charge(cost); err != nil {
		return nil, err
	}
	q.Data = slices.Clone(q.Data)
	return &Expr{src: src, quoting: q, run: compile(n), paths: findPaths(n)}, nil
}

// isData reports whether the byte at position i is data.
func (l *lexer) isData(i int) bool {
	if len(l.q.Data) == 0 {
		return false
	}
	n, found := slices.BinarySearchFunc(l.q.Data, i, func(s Span, i int) int { return s.From - i })
	return found && l.q.Data[n].To > i || n > 0 && i < l.q.Data[n-1].To
}

// dataFrom returns the end of the data that begin at position i, within the limit; i itself if there are none.
func (l *lexer) dataFrom(i, limit int) int {
	for _, s := range l.q.Data {
		if s.From <= i && i < s.To {
			return min(s.To, limit)
		}
	}
	return i
}

// evaluateToken rejects a token in which data would become syntax. before is the previous token.
func (l *lexer) evaluateToken(t, before token) error {
	switch t.kind {
	case tStringLiteral, tQuotedIdentifier, tJSONLiteral:
		return nil // their delimiters are not data, see until and readString
	}
	has := false
	for i := t.pos; i < l.pos && !has; i++ {
		has = l.isData(i)
	}
	if !has {
		return nil
	}
	switch {
	case t.kind == tNumber && l.whole(t.pos):
		return nil
	case t.kind == tUnquotedIdentifier && l.whole(t.pos):
		called := strings.HasPrefix(strings.TrimLeft(l.src[l.pos:], " \t\n\r"), "(")
		if !called && (before.kind == tDot || l.q.Names || !l.isData(t.pos)) {
			return nil
		}
	}
	return l.notSyntax(t.pos)
}

// evaluateEmpty rejects empty data on which the syntax depends: empty data between brackets would give another operator. It
// checks those up to the token t and returns the others.
func (l *lexer) evaluateEmpty(empty []int, t token) ([]int, error) {
	for len(empty) > 0 {
		e, inside := empty[0], false
		switch t.kind {
		case tEOF:
		case tStringLiteral, tQuotedIdentifier, tJSONLiteral:
			inside = e < l.pos
			if !inside {
				return empty, nil
			}
			inside = t.pos < e
		case tUnquotedIdentifier:
			if e > l.pos {
				return empty, nil
			}
			inside = t.pos <= e
		default:
			if e >= l.pos {
				return empty, nil
			}
		}
		if !inside {
			return nil, l.errorf(e, "the value of a variable is empty, and the query around it has no meaning without it")
		}
		empty = empty[1:]
	}
	return nil, nil
}

// split separates the empty parts from the data.
func (q Quoting) split() (data []Span, empty []int) {
	for _, s := range q.Data {
		if s.From == s.To {
			empty = append(empty, s.From)
		} else {
			data = append(data, s)
		}
	}
	return data, empty
}

// whole reports whether the token from pos to the lexer's position contains its data completely.
func (l *lexer) whole(pos int) bool {
	for _, s := range l.q.Data {
		if s.From < l.pos && s.To > pos && (s.From < pos || s.To > l.pos) {
			return false
		}
	}
	return true
}

func (l *lexer) notSyntax(pos int) error {
	shown := l.src[pos:]
	for _, s := range l.q.Data {
		if s.To > pos {
			shown = l.src[s.From:s.To]
			break
		}
	}
	if len(shown) > maxShownData {
		shown = strings.ToValidUTF8(shown[:maxShownData], "") + "…"
	}
	return l.errorf(pos, "the value %q is data and not a part of the query: write its variable within quotes, or behind a dot where it is a name", shown)
}

// maxShownData bounds the part of the data that an error shows.
const maxShownData = 100

// fill returns text[from:to], with data written by write and everything else unchanged.
func (l *lexer) fill(from, to int, write func(b *strings.Builder, at int, data string) error) (string, error) {
	if len(l.q.Data) == 0 {
		return l.src[from:to], nil
	}
	var b strings.Builder
	for i := from; i < to; {
		end := l.dataFrom(i, to)
		switch {
		case end > i:
			if err := write(&b, i, l.src[i:end]); err != nil {
				return "", err
			}
			i = end
		case l.src[i] == '\\' && i+1 < to && l.isData(i+1):
			return "", errors.New("a variable follows a backslash")
		case l.src[i] == '\\' && i+1 < to:
			if l.src[i+1] != '`' { // the escape is only needed because of the enclosing literal
				b.WriteByte('\\')
			}
			b.WriteByte(l.src[i+1])
			i += 2
		default:
			b.WriteByte(l.src[i])
			i++
		}
	}
	return b.String(), nil
}

// asContent writes data as a part of a JSON text between quotes.
func asContent(b *strings.Builder, _ int, data string) error {
	text := value.JSON(data)
	b.WriteString(text[1 : len(text)-1])
	return nil
}

// asJSON returns a function that writes data into a JSON literal: between quotes as content, elsewhere as a separate value.
func (l *lexer) asJSON(start int) func(*strings.Builder, int, string) error {
	at, inText := start, false
	return func(b *strings.Builder, i int, data string) error {
		for ; at < i; at++ {
			switch {
			case l.isData(at):
			case l.src[at] == '\\' && inText:
				at++
			case l.src[at] == '"':
				inText = !inText
			}
		}
		if inText {
			return asContent(b, i, data)
		}
		if _, err := value.DecodeJSON([]byte(data)); err != nil {
			return fmt.Errorf("the value of a variable is not JSON: %w", err)
		}
		b.WriteString(data)
		return nil
	}
}
