package value

// Doc is one JSON document, decoded at most once, on first use, and immutable by agreement. The nil Doc is "no document".
type Doc struct{ v any }

// Of wraps a decoded value.
func Of(v any) *Doc { return &Doc{v: v} }

// Value returns the decoded document; nil for the nil Doc.
func (d *Doc) Value() (any, error) {
	if d == nil {
		return nil, nil
	}
	return d.v, nil
}

// Map returns the document as an object; nil for the nil Doc and for null; an error when it is something else.
func (d *Doc) Map() (map[string]any, error) {
	v, err := d.Value()
	m, _ := v.(map[string]any)
	return m, err
}
