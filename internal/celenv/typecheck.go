package celenv

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"ephor.invalid/ephor/internal/strict"
)

// Shape describes what is known about the fields of a value.
type Shape interface {
	// Field returns the shape of a member. ok is false if no member can have that name.
	Field(name string) (s Shape, ok bool)
	// Element returns the shape of the elements of a list. ok is false if the value is not a list.
	Element() (s Shape, ok bool)
	// Names returns the names of the known members; none for maps, lists and scalars.
	Names() []string
	// Scalar returns the name of a scalar type in JSON schemas: string, integer, number or boolean; empty for all others.
	Scalar() string
}

// Limits for the shape of a kind. They are necessary because the schema of a CustomResourceDefinition refers to itself.
const (
	maxShapeDepth = 14
	maxShapeTypes = 20_000
)

// NewTypeCheck returns a Compiler that knows the fields of object and oldObject. name is the name of their kind. The
// compiled expressions are not for evaluation: call FieldMistakes with the errors to find fields that cannot exist, and comparisons of fields with
// values of other types.
func NewTypeCheck(d Declarations, name string, object Shape) (*Compiler, error) {
	b := shapeBuilder{left: maxShapeTypes, names: map[string]bool{}}
	t := b.build(object, 0).MaybeAssignTypeName("kubernetes.object." + name)
	if !t.IsObject() {
		return NewCompiler(d), nil // nothing is known about the object
	}
	known, err := withObject(d, t)
	if err != nil {
		return nil, err
	}
	return &Compiler{declared: d, env: known, planner: plannerOf(d), alone: true, variables: NewVariables(d), fields: slices.Sorted(maps.Keys(b.names))}, nil
}

// FieldMistake is a mistake about a field: the API server's text on one line, and how to correct it, if that is known.
type FieldMistake struct{ Text, Hint string }

var (
	undefinedField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`undefined field '([^']*)'`) })
	// otherType matches an operator that is not defined for the types on its sides. The operands of ?: may have several types.
	otherType = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`found no matching overload for '(_[^_?]+_|!_|-_|@in)' applied to '`)
	})
)

// FieldMistakes returns the mistakes about fields that do not exist, and about fields whose type an operator does not accept. It omits other
// mistakes: shapes do not know all types.
func (c *Compiler) FieldMistakes(err error) []FieldMistake {
	var e *CompileError
	if !errors.As(err, &e) {
		return nil
	}
	var out []FieldMistake
	// The library prints every mistake as a line that begins with ERROR, followed by two lines of source.
	for _, text := range strings.Split("\n"+e.Text(), "\nERROR: ")[1:] {
		m, hint := undefinedField().FindStringSubmatch(text), ""
		switch {
		case m != nil:
			if slices.Contains(c.fields, m[1]) {
				hint = "a field of this name is at another level: a part of the path is missing, such as spec"
			} else if near := strict.Nearest(m[1], c.fields); near != "" {
				hint = "did you mean " + near + "?"
			}
		case otherType().MatchString(text):
			hint = "compare the field with a value of its own type, or convert it: int(…), string(…)"
		default:
			continue
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		out = append(out, FieldMistake{"ERROR: " + strings.Join(lines, "; "), hint})
	}
	return out
}

type shapeBuilder struct {
	left  int
	names map[string]bool // of all fields
}

// notAName is not the name of any field. A shape that has such a field is a map, or may be anything.
const notAName = "\x00"

func (b *shapeBuilder) build(s Shape, depth int) *apiservercel.DeclType {
	element, isList := s.Element()
	value, isMap := s.Field(notAName)
	names := s.Names()
	if b.left--; b.left < 0 || depth > maxShapeDepth || isList && isMap {
		return apiservercel.DynType
	}
	switch s.Scalar() {
	case "integer":
		return apiservercel.IntType
	case "boolean":
		return apiservercel.BoolType
	}
	switch {
	case isList:
		return apiservercel.NewListType(b.build(element, depth+1), -1)
	case isMap && len(names) == 0:
		return apiservercel.NewMapType(apiservercel.StringType, b.build(value, depth+1), -1)
	case isMap || len(names) == 0: // arbitrary fields besides the known ones, or a scalar
		return apiservercel.DynType
	}
	fields := make(map[string]*apiservercel.DeclField, len(names))
	for _, n := range names {
		escaped, ok := apiservercel.Escape(n)
		if !ok {
			continue
		}
		if f, ok := s.Field(n); ok {
			b.names[n] = true
			fields[escaped] = apiservercel.NewDeclField(escaped, b.build(f, depth+1), false, nil, nil)
		}
	}
	return apiservercel.NewObjectType("object", fields)
}
