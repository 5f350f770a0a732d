package schema

// Type is the type of a value in a kind.
type Type interface {
	// Field returns the type of the member with that name; ok is false when the type cannot have such a member.
	Field(name string) (t Type, ok bool)
	// Element returns the type of the elements of a list; ok is false for other types.
	Element() (t Type, ok bool)
	// Names returns the members whose names are known, sorted; none for maps and scalars.
	Names() []string
}

// Any is the type of values of any form.
var Any Type = anything{}

type anything struct{}

func (anything) Field(string) (Type, bool) { return Any, true }
func (anything) Element() (Type, bool)     { return Any, true }
func (anything) Names() []string           { return nil }

// scalar is the type of texts, numbers and booleans, under its name in JSON schemas.
type scalar struct{ name string }

// Scalar returns the name of a scalar type: string, integer, number or boolean; empty for all other types, and if it is unknown.
func Scalar(t Type) string {
	switch t := t.(type) {
	case scalar:
		return t.name
	case openAPI:
		switch name, _ := t.s["type"].(string); name {
		case "string", "integer", "number", "boolean":
			return name
		}
	}
	return ""
}

func (scalar) Field(string) (Type, bool) { return nil, false }
func (scalar) Element() (Type, bool)     { return nil, false }
func (scalar) Names() []string           { return nil }

// mapping is the type of maps with arbitrary keys.
type mapping struct{ element Type }

func (m mapping) Field(string) (Type, bool) { return m.element, true }
func (m mapping) Element() (Type, bool)     { return nil, false }
func (m mapping) Names() []string           { return nil }

// list is the type of lists.
type list struct{ element Type }

func (l list) Field(string) (Type, bool) { return nil, false }
func (l list) Element() (Type, bool)     { return l.element, true }
func (l list) Names() []string           { return nil }
