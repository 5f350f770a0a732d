package value

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// MaxDepth bounds the nesting of a document. Kubernetes objects nest some twenty levels deep.
const MaxDepth = 1000

// ErrTooDeep is returned for a document that nests deeper than MaxDepth.
var ErrTooDeep = fmt.Errorf("the JSON document nests deeper than %d levels", MaxDepth)

// MaxItems bounds the items and members of a document. The largest object that a cluster can store (1.5 MiB) has fewer; a text of brackets
// may have more, and would take fifty times its size in memory.
const MaxItems = 1 << 19

// ErrTooManyItems is returned for a document with more than MaxItems items.
var ErrTooManyItems = fmt.Errorf("the JSON document has more than %d items", MaxItems)

// SyntaxError is a mistake in a JSON text, with the text of encoding/json.
type SyntaxError struct {
	// Offset is the number of bytes that were read before the mistake.
	Offset int
	msg    string
}

func (e *SyntaxError) Error() string { return e.msg }

// DecodeJSON decodes one JSON document, which must fill the whole input. A number becomes int64 if the literal has neither fraction nor
// exponent and fits, otherwise float64; a number beyond float64 is an error. Of several equal keys the last one counts; invalid UTF-8
// becomes U+FFFD. Errors are *SyntaxError, ErrTooDeep or ErrTooManyItems.
func DecodeJSON(b []byte) (any, error) { return decode(string(b), false) }

// DecodeJSONFloat is DecodeJSON with every number as float64.
func DecodeJSONFloat(b []byte) (any, error) { return decode(string(b), true) }

func decode(text string, floats bool) (any, error) {
	v, _, err := DecodeUnique(text, floats)
	return v, err
}

// DecodeUnique is DecodeJSON, or with floats DecodeJSONFloat, and reports whether the keys of every object are unique.
func DecodeUnique(text string, floats bool) (v any, unique bool, err error) {
	r := Reader{s: text, floats: floats}
	if v, err = r.Any(); err != nil {
		return nil, false, err
	}
	return v, !r.twice, r.End()
}

// scratch holds the members of the objects and lists that are being read, so that each map and list is allocated in its final size. It is a
// stack: an inner object's members lie above the outer one's.
type scratch struct {
	keys   []string
	values []any
}

// scratches has the memory of earlier decodings. Decoding a part of a Pod takes 1.2 × the time without the pool (BenchmarkDecodePod).
var scratches = sync.Pool{New: func() any {
	return &scratch{keys: make([]string, 0, 64), values: make([]any, 0, 128)}
}}

// A scratch that has held a huge document is not reused.
const maxScratch = 1 << 14

func (r *Reader) value(sc *scratch, depth int, f *Fields) (any, error) {
	c, ok := r.peek()
	if !ok {
		return nil, r.unexpectedEnd()
	}
	switch {
	case c == '"':
		s, err := r.text()
		if err != nil {
			return nil, err
		}
		return s, nil
	case c == '{':
		return r.object(sc, depth+1, f)
	case c == '[':
		return r.list(sc, depth+1, f)
	case c == '-' || '0' <= c && c <= '9':
		return r.number()
	case c == 't':
		return true, r.literal("true")
	case c == 'f':
		return false, r.literal("false")
	case c == 'n':
		return nil, r.literal("null")
	}
	return nil, r.invalid(r.i, "looking for beginning of value")
}

func (r *Reader) object(sc *scratch, depth int, f *Fields) (any, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	r.i++ // the brace
	k0, v0 := len(sc.keys), len(sc.values)
	for first := true; ; first = false {
		key, done, err := r.key(first)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
		below, omitted := f.member(key)
		if omitted {
			if err := r.skip(depth); err != nil {
				return nil, err
			}
			continue
		}
		v, err := r.value(sc, depth, below)
		if err != nil {
			return nil, err
		}
		sc.keys = append(sc.keys, key)
		if err := r.push(sc, v); err != nil {
			return nil, err
		}
	}
	keys, values := sc.keys[k0:], sc.values[v0:]
	m := make(map[string]any, len(keys))
	for i, k := range keys {
		m[k] = values[i]
	}
	r.twice = r.twice || len(m) < len(keys)
	sc.keys, sc.values = sc.keys[:k0], sc.values[:v0]
	return m, nil
}

func (r *Reader) list(sc *scratch, depth int, f *Fields) (any, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	r.i++ // the bracket
	v0, below := len(sc.values), f.item()
	for first := true; ; first = false {
		done, err := r.item(first)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
		v, err := r.value(sc, depth, below)
		if err != nil {
			return nil, err
		}
		if err := r.push(sc, v); err != nil {
			return nil, err
		}
	}
	out := make([]any, len(sc.values)-v0)
	copy(out, sc.values[v0:])
	sc.values = sc.values[:v0]
	return out, nil
}

// push stores an item until its list or object is complete.
func (r *Reader) push(sc *scratch, v any) error {
	if r.items++; r.items > MaxItems {
		return ErrTooManyItems
	}
	if len(sc.values) == cap(sc.values) {
		sc.values = slices.Grow(sc.values, 1+cap(sc.values)) // append would grow a long slice by only a quarter
	}
	sc.values = append(sc.values, v)
	return nil
}

// number reads a number literal. The fast path is a short integer, which is nearly every number of a Kubernetes object.
func (r *Reader) number() (any, error) {
	start := r.i
	isInt, err := r.scanNumber()
	if err != nil {
		return nil, err
	}
	lit := r.s[start:r.i]
	if isInt && len(lit) <= 18 {
		var n int64
		for _, c := range []byte(lit) {
			if c != '-' {
				n = n*10 + int64(c-'0')
			}
		}
		negative := lit[0] == '-'
		if negative {
			n = -n
		}
		if !r.floats {
			return n, nil
		}
		if !negative || n != 0 { // -0 exists only as a float64
			return float64(n), nil
		}
	} else if isInt && !r.floats {
		if n, err := strconv.ParseInt(lit, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return nil, &SyntaxError{Offset: r.i, msg: "the number " + abbreviate(lit) + " is out of range"}
	}
	return f, nil
}

// scanNumber skips a number literal and reports whether it has neither fraction nor exponent.
func (r *Reader) scanNumber() (isInt bool, err error) {
	b, i := r.s, r.i
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && '1' <= b[i] && b[i] <= '9':
		i = digits(b, i)
	default:
		return false, r.invalid(i, "in numeric literal")
	}
	isInt = true
	if i < len(b) && b[i] == '.' {
		isInt = false
		j := digits(b, i+1)
		if j == i+1 {
			return false, r.invalid(j, "after decimal point in numeric literal")
		}
		i = j
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		isInt = false
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		j := digits(b, i)
		if j == i {
			return false, r.invalid(j, "in exponent of numeric literal")
		}
		i = j
	}
	r.i = i
	return isInt, nil
}

func digits(b string, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

func (r *Reader) literal(word string) error {
	for k := 0; k < len(word); k++ {
		if r.i+k >= len(r.s) || r.s[r.i+k] != word[k] {
			return r.invalid(r.i+k, "in literal "+word+" (expecting "+strconv.QuoteRune(rune(word[k]))+")")
		}
	}
	r.i += len(word)
	return nil
}

func (r *Reader) unexpectedEnd() error {
	return &SyntaxError{Offset: len(r.s), msg: "unexpected end of JSON input"}
}

// invalid returns the error for byte i. Inside a token, encoding/json reads the end of the input as a blank, and so does this function:
// users see the text through parse_json.
func (r *Reader) invalid(i int, context string) error {
	if i >= len(r.s) {
		return &SyntaxError{Offset: len(r.s), msg: "invalid character ' ' " + context}
	}
	return &SyntaxError{Offset: i + 1, msg: "invalid character " + quoteByte(r.s[i]) + " " + context}
}

func quoteByte(c byte) string {
	if c == '\'' {
		return `'\''`
	}
	if c == '"' {
		return `'"'`
	}
	s := strconv.Quote(string(rune(c)))
	return "'" + s[1:len(s)-1] + "'"
}

func abbreviate(s string) string {
	return Clip(s, 40)
}

// errNotConsumed is the error for a callback of a Reader that reads more or less than one value.
var errNotConsumed = errors.New("value: the callback of a Reader must read one value")
