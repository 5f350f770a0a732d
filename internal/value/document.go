package value

import (
	"fmt"
	"sync"
)

// Doc is one JSON document, decoded at most once, on first use, and immutable by convention. The nil Doc means "no document". A
// Doc is safe for concurrent use; do not copy it.
type Doc struct {
	once sync.Once
	text string // empty for a Doc of a value
	// decoded: v was decoded from text before; partial: v may lack parts.
	decoded, partial bool
	v                any
	err              error
}

// Of returns a Doc of a decoded value.
func Of(v any) *Doc { return &Doc{v: v} }

// FromJSON returns a Doc of a JSON text, which DecodeJSON decodes at its first use. An empty text or null gives the value nil.
func FromJSON(text string) *Doc { return &Doc{text: text} }

// Partial reports whether parts of the document may be missing from its value (Reader.Part); Whole returns all of it.
func (d *Doc) Partial() bool { return d != nil && d.partial }

// Whole returns the document with all of its parts: d itself unless it is partial.
func (d *Doc) Whole() *Doc {
	if !d.Partial() {
		return d
	}
	return FromJSON(d.text)
}

// Undecoded returns the document without its decoded form, which takes more memory than the text; d itself if it has no text.
func (d *Doc) Undecoded() *Doc {
	if d.Text() == "" {
		return d
	}
	return FromJSON(d.text)
}

// Value returns the decoded document; nil for the nil Doc. The error is that of DecodeJSON, the same at every call.
func (d *Doc) Value() (any, error) {
	if d == nil {
		return nil, nil
	}
	d.once.Do(func() {
		if d.text != "" && !d.decoded {
			d.v, d.err = decode(d.text, false)
		}
	})
	return d.v, d.err
}

// Map returns the document as an object; nil for the nil Doc and for null; an error for any other type.
func (d *Doc) Map() (map[string]any, error) {
	v, err := d.Value()
	if err != nil || v == nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the document is not an object but %s", TypeName(v))
	}
	return m, nil
}

// Text returns the text of the document; empty for a Doc of a value.
func (d *Doc) Text() string {
	if d == nil {
		return ""
	}
	return d.text
}

// TypeName names the type of a JSON value, with its article: "an object", "a number". Messages use it instead of the type in Go.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}
