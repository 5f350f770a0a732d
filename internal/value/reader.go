package value

import "fmt"

// Reader reads one JSON text from beginning to end, so that an envelope such as an AdmissionReview is decoded in one pass:
//
//	err := r.Object(func(key string) error {
//		switch key {
//		case "uid":
//			uid, err = r.String()
//		case "object":
//			object, err = r.Any()
//		}
//		return err // a value that was not read is skipped
//	})
//
// As in encoding/json, null stands for the zero value of every type. A Reader is used by one goroutine.
type Reader struct {
	s      string // strings are slices of it
	i      int
	depth  int
	items  int
	floats bool
	twice  bool // an object had a key twice
}

// NewReader returns a Reader of text. Numbers are read as by DecodeJSON.
func NewReader(text string) *Reader { return &Reader{s: text} }

// Object reads an object and calls member for each key. The callback either reads the key's value with r, or it is skipped. Null has no
// members. An error of the callback ends the reading and is returned.
func (r *Reader) Object(member func(key string) error) error {
	if ok, err := r.open('{', "an object"); !ok {
		return err
	}
	defer func() { r.depth-- }()
	for first := true; ; first = false {
		key, done, err := r.key(first)
		if err != nil || done {
			return err
		}
		if err := r.one(func() error { return member(key) }); err != nil {
			return err
		}
	}
}

// Array reads a list and calls item with the index of each item, under the rules of Object.
func (r *Reader) Array(item func(i int) error) error {
	if ok, err := r.open('[', "a list"); !ok {
		return err
	}
	defer func() { r.depth-- }()
	for i := 0; ; i++ {
		done, err := r.item(i == 0)
		if err != nil || done {
			return err
		}
		if err := r.one(func() error { return item(i) }); err != nil {
			return err
		}
	}
}

// one calls a callback that reads one value, and skips the value if it read nothing.
func (r *Reader) one(read func() error) error {
	if _, ok := r.peek(); !ok {
		return r.unexpectedEnd()
	}
	start, depth := r.i, r.depth
	if err := read(); err != nil {
		return err
	}
	if r.depth != depth {
		return errNotConsumed
	}
	if r.i == start {
		return r.Skip()
	}
	return nil
}

func (r *Reader) open(bracket byte, what string) (bool, error) {
	c, ok := r.peek()
	switch {
	case !ok:
		return false, r.unexpectedEnd()
	case c == 'n':
		return false, r.literal("null")
	case c != bracket:
		return false, r.wrongType(what)
	}
	if r.depth++; r.depth > MaxDepth {
		return false, ErrTooDeep
	}
	r.i++
	return true, nil
}

// Part decodes the next value as a document with only these fields; nil for all of it.
func (r *Reader) Part(fields *Fields) (*Doc, error) {
	start := r.i
	v, err := r.AnyOf(fields)
	if err != nil {
		return nil, err
	}
	return &Doc{v: v, text: r.s[start:r.i], decoded: true, partial: fields != nil}, nil
}

// Any decodes the next value.
func (r *Reader) Any() (any, error) { return r.AnyOf(nil) }

// AnyOf is Any for a value of which only these fields are read; nil for all of it. Other members are not in the result, but their syntax is
// checked. Lists keep their length.
func (r *Reader) AnyOf(fields *Fields) (any, error) {
	sc := scratches.Get().(*scratch)
	v, err := r.value(sc, r.depth, fields)
	if cap(sc.values) <= maxScratch && cap(sc.keys) <= maxScratch {
		// Cleared to its capacity: otherwise the pool would keep decoded values alive.
		clear(sc.keys[:cap(sc.keys)])
		clear(sc.values[:cap(sc.values)])
		sc.keys, sc.values = sc.keys[:0], sc.values[:0]
		scratches.Put(sc)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Raw returns the text of the next value, as a slice of the Reader's input.
func (r *Reader) Raw() (string, error) {
	if _, ok := r.peek(); !ok {
		return "", r.unexpectedEnd()
	}
	start := r.i
	if err := r.Skip(); err != nil {
		return "", err
	}
	return r.s[start:r.i], nil
}

// Next returns the first byte of the next value, which shows its type, without reading it.
func (r *Reader) Next() (byte, error) {
	c, ok := r.peek()
	if !ok {
		return 0, r.unexpectedEnd()
	}
	return c, nil
}

// String reads a string; "" for null.
func (r *Reader) String() (string, error) {
	c, ok := r.peek()
	switch {
	case !ok:
		return "", r.unexpectedEnd()
	case c == 'n':
		return "", r.literal("null")
	case c != '"':
		return "", r.wrongType("a string")
	}
	return r.text()
}

// Bool reads true or false; false for null.
func (r *Reader) Bool() (bool, error) {
	c, ok := r.peek()
	switch {
	case !ok:
		return false, r.unexpectedEnd()
	case c == 't':
		return true, r.literal("true")
	case c == 'f':
		return false, r.literal("false")
	case c == 'n':
		return false, r.literal("null")
	}
	return false, r.wrongType("a boolean")
}

// Null reports whether the next value is null, and reads it if it is.
func (r *Reader) Null() bool {
	c, ok := r.peek()
	return ok && c == 'n' && r.literal("null") == nil
}

// Skip skips the next value and checks its syntax.
func (r *Reader) Skip() error { return r.skip(r.depth) }

func (r *Reader) skip(depth int) error {
	c, ok := r.peek()
	if !ok {
		return r.unexpectedEnd()
	}
	switch {
	case c == '"':
		_, err := r.literalText(false)
		return err
	case c == '{' || c == '[':
		if depth++; depth > MaxDepth {
			return ErrTooDeep
		}
		r.i++
		if r.i < len(r.s) && r.s[r.i] == c+2 { // {} and [], which are frequent in managedFields
			r.i++
			return nil
		}
		for first := true; ; first = false {
			var done bool
			var err error
			if c == '{' {
				_, done, err = r.nextKey(first, false)
			} else {
				done, err = r.item(first)
			}
			if err != nil || done {
				return err
			}
			if err := r.skip(depth); err != nil {
				return err
			}
		}
	case c == '-' || '0' <= c && c <= '9':
		_, err := r.scanNumber()
		return err
	case c == 't':
		return r.literal("true")
	case c == 'f':
		return r.literal("false")
	case c == 'n':
		return r.literal("null")
	}
	return r.invalid(r.i, "looking for beginning of value")
}

// End returns an error if anything but white space is left.
func (r *Reader) End() error {
	if _, ok := r.peek(); ok {
		return r.invalid(r.i, "after top-level value")
	}
	return nil
}

// peek skips white space and returns the next byte; false at the end.
func (r *Reader) peek() (byte, bool) {
	for r.i < len(r.s) {
		c := r.s[r.i]
		if c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, true
		}
		r.i++
	}
	return 0, false
}

// key reads up to a member's value: the comma (unless first), the key and the colon. done means that the object is closed.
func (r *Reader) key(first bool) (key string, done bool, err error) { return r.nextKey(first, true) }

// nextKey is key; if wanted is false, it does not return the key itself.
func (r *Reader) nextKey(first, wanted bool) (key string, done bool, err error) {
	c, ok := r.peek()
	if !ok {
		return "", false, r.unexpectedEnd()
	}
	if c == '}' {
		r.i++
		return "", true, nil
	}
	if !first {
		if c != ',' {
			return "", false, r.invalid(r.i, "after object key:value pair")
		}
		r.i++
		if c, ok = r.peek(); !ok {
			return "", false, r.unexpectedEnd()
		}
	}
	if c != '"' {
		return "", false, r.invalid(r.i, "looking for beginning of object key string")
	}
	if key, err = r.literalText(wanted); err != nil {
		return "", false, err
	}
	if c, ok = r.peek(); !ok {
		return "", false, r.unexpectedEnd()
	}
	if c != ':' {
		return "", false, r.invalid(r.i, "after object key")
	}
	r.i++
	return key, false, nil
}

// item reads up to a list's next item. done means that the list is closed.
func (r *Reader) item(first bool) (done bool, err error) {
	c, ok := r.peek()
	if !ok {
		return false, r.unexpectedEnd()
	}
	if c == ']' {
		r.i++
		return true, nil
	}
	if first {
		return false, nil
	}
	if c != ',' {
		return false, r.invalid(r.i, "after array element")
	}
	r.i++
	if c, ok = r.peek(); ok && c == ']' {
		return false, r.invalid(r.i, "looking for beginning of value")
	}
	return false, nil
}

func (r *Reader) wrongType(want string) error {
	return &SyntaxError{Offset: r.i, msg: fmt.Sprintf("expected %s, found %s at offset %d", want, r.found(), r.i)}
}

func (r *Reader) found() string {
	switch r.s[r.i] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
