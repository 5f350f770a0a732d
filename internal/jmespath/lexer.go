package jmespath

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"ephor.invalid/ephor/internal/value"
)

type kind int

const (
	tEOF kind = iota
	tUnquotedIdentifier
	tQuotedIdentifier
	tStringLiteral
	tJSONLiteral
	tNumber
	tStar
	tDot
	tFilter
	tFlatten
	tLparen
	tRparen
	tLbracket
	tRbracket
	tLbrace
	tRbrace
	tOr
	tPipe
	tAnd
	tExpref
	tNot
	tLT
	tLTE
	tGT
	tGTE
	tEQ
	tNE
	tComma
	tColon
	tCurrent
)

var kindNames = [...]string{"tEOF", "tUnquotedIdentifier", "tQuotedIdentifier", "tStringLiteral", "tJSONLiteral", "tNumber", "tStar", "tDot", "tFilter",
	"tFlatten", "tLparen", "tRparen", "tLbracket", "tRbracket", "tLbrace", "tRbrace", "tOr", "tPipe", "tAnd", "tExpref", "tNot", "tLT", "tLTE", "tGT", "tGTE",
	"tEQ", "tNE", "tComma", "tColon", "tCurrent"}

func (k kind) String() string { return kindNames[k] }

type token struct {
	kind   kind
	pos    int
	text   string // the identifier or the raw string, unquoted
	number int
	value  any // of a JSON literal
}

// lexer splits an expression into tokens.
type lexer struct {
	src string
	pos int
	q   Quoting
}

func tokenize(src string, q Quoting) ([]token, error) {
	l := &lexer{src: src, q: q}
	var empty []int
	if len(q.Data) > 0 {
		l.q.Data, empty = q.split()
	}
	tokens := make([]token, 0, 16)
	var before token
	for {
		t, err := l.next()
		if err == nil && len(q.Data) > 0 {
			err = l.evaluateToken(t, before)
			before = t
		}
		if err == nil && len(empty) > 0 {
			empty, err = l.evaluateEmpty(empty, t)
		}
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		if t.kind == tEOF {
			return tokens, nil
		}
	}
}

var single = [128]kind{'*': tStar, '.': tDot, '(': tLparen, ')': tRparen, ']': tRbracket, '{': tLbrace, '}': tRbrace, ',': tComma, ':': tColon, '@': tCurrent}

func (l *lexer) next() (token, error) {
	for l.pos < len(l.src) && strings.IndexByte(" \t\n\r", l.src[l.pos]) >= 0 && !l.isData(l.pos) {
		l.pos++
	}
	t := token{pos: l.pos}
	if l.pos == len(l.src) {
		return t, nil
	}
	c := l.src[l.pos]
	if (c == '\'' || c == '"' || c == '`') && l.isData(l.pos) {
		return t, l.notSyntax(l.pos)
	}
	if c < 128 && single[c] != 0 {
		l.pos++
		t.kind = single[c]
		return t, nil
	}
	var err error
	switch {
	case isLetter(c):
		end := l.pos
		for end < len(l.src) && (isLetter(l.src[end]) || isDigit(l.src[end])) {
			end++
		}
		t.kind, t.text, l.pos = tUnquotedIdentifier, l.src[l.pos:end], end
	case c == '-' || isDigit(c):
		t.kind = tNumber
		t.number, err = l.readNumber()
	case c == '[':
		t.kind = l.either("[?", tFilter, "[]", tFlatten, tLbracket)
	case c == '|':
		t.kind = l.either("||", tOr, "", 0, tPipe)
	case c == '&':
		t.kind = l.either("&&", tAnd, "", 0, tExpref)
	case c == '<':
		t.kind = l.either("<=", tLTE, "", 0, tLT)
	case c == '>':
		t.kind = l.either(">=", tGTE, "", 0, tGT)
	case c == '!':
		t.kind = l.either("!=", tNE, "", 0, tNot)
	case strings.HasPrefix(l.src[l.pos:], "=="):
		t.kind = tEQ
		l.pos += 2
	case c == '\'':
		t.kind = tStringLiteral
		t.text, err = l.readString()
	case c == '"':
		t.kind = tQuotedIdentifier
		t.text, err = l.readQuoted()
	case c == '`':
		t.kind = tJSONLiteral
		t.value, err = l.readJSON()
	case l.isData(l.pos):
		err = l.notSyntax(l.pos)
	default:
		r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
		err = l.errorf(t.pos, "Unknown char: %s", strconv.QuoteRuneToASCII(r))
	}
	return t, err
}

// either reads the first of two operators with which the text continues, otherwise one byte.
func (l *lexer) either(long1 string, k1 kind, long2 string, k2 kind, short kind) kind {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, long1):
		l.pos += len(long1)
		return k1
	case long2 != "" && strings.HasPrefix(rest, long2):
		l.pos += len(long2)
		return k2
	}
	l.pos++
	return short
}

// until returns the text up to the closing delimiter; a backslash escapes the byte after it.
func (l *lexer) until(delimiter byte) (string, error) {
	start := l.pos + 1
	for i := start; i < len(l.src); i++ {
		switch c := l.src[i]; {
		case c != '\\' && c != delimiter, l.isData(i):
		case c == '\\':
			i++
		default:
			l.pos = i + 1
			return l.src[start:i], nil
		}
	}
	return "", l.errorf(len(l.src), "Unclosed delimiter: %c", delimiter)
}

// readString reads '…'. Only \' is an escape: every other backslash stands for itself, even before another backslash.
func (l *lexer) readString() (string, error) {
	start := l.pos + 1
	for i := start; i < len(l.src); i++ {
		if l.src[i] == '\'' && !l.isData(i) && (l.src[i-1] != '\\' || l.isData(i-1)) {
			l.pos = i + 1
			return l.unquote(start, i), nil
		}
	}
	return "", l.errorf(len(l.src), "Unclosed delimiter: '")
}

// unquote returns the content of '…'.
func (l *lexer) unquote(start, end int) string {
	if len(l.q.Data) == 0 {
		return strings.ReplaceAll(l.src[start:end], `\'`, `'`)
	}
	var b strings.Builder
	for i := start; i < end; i++ {
		if l.src[i] == '\\' && i+1 < end && l.src[i+1] == '\'' && !l.isData(i) && !l.isData(i+1) {
			i++
		}
		b.WriteByte(l.src[i])
	}
	return b.String()
}

func (l *lexer) readQuoted() (string, error) {
	start := l.pos
	if _, err := l.until('"'); err != nil {
		return "", err
	}
	text, err := l.fill(start, l.pos, asContent)
	if err != nil {
		return "", l.badLiteral(start, err)
	}
	v, err := value.DecodeJSON([]byte(text))
	if err != nil {
		return "", l.badLiteral(start, err)
	}
	s, _ := v.(string)
	return s, nil
}

func (l *lexer) readJSON() (any, error) {
	start := l.pos
	text, err := l.until('`')
	if err != nil {
		return nil, err
	}
	if len(l.q.Data) == 0 {
		text = strings.ReplaceAll(text, "\\`", "`")
	} else if text, err = l.fill(start+1, l.pos-1, l.asJSON(start+1)); err != nil {
		return nil, l.badLiteral(start, err)
	}
	v, err := value.DecodeJSONFloat([]byte(text))
	if err != nil {
		return nil, l.badLiteral(start, err)
	}
	return v, nil
}

func (l *lexer) badLiteral(pos int, err error) error {
	return &SyntaxError{Expression: l.src, Offset: pos, msg: err.Error(), literal: true}
}

func (l *lexer) readNumber() (int, error) {
	end := l.pos + 1
	for end < len(l.src) && isDigit(l.src[end]) {
		end++
	}
	n, err := strconv.Atoi(l.src[l.pos:end])
	if err != nil {
		return 0, l.errorf(l.pos, "%s is not a number", l.src[l.pos:end])
	}
	l.pos = end
	return n, nil
}

func (l *lexer) errorf(pos int, format string, args ...any) error {
	return &SyntaxError{Expression: l.src, Offset: pos, msg: fmt.Sprintf(format, args...)}
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
