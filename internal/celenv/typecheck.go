package celenv

import (
	"errors"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Shape is what is known of the fields of a value.
type Shape interface {
	// Field is the shape of a member; ok is false when there cannot be one of that name.
	Field(name string) (s Shape, ok bool)
	// Element is the shape of the elements of a list; ok is false when the value is none.
	Element() (s Shape, ok bool)
	// Names are the members that are known by name; none for maps, lists and scalars.
	Names() []string
}

// Limits of what is looked at of a kind: a CustomResourceDefinition describes itself without end.
const (
	maxShapeDepth = 14
	maxShapeTypes = 20_000
)

// NewTypeCheck makes a Compiler that knows the fields of object and oldObject, whose kind has the name. What it compiles is
// not for evaluation: UndefinedFields of its errors tells which fields cannot exist.
func NewTypeCheck(d Declarations, name string, object Shape) (*Compiler, error) {
	b := shapeBuilder{left: maxShapeTypes}
	t := b.build(object, 0).MaybeAssignTypeName("kubernetes.object." + name)
	if !t.IsObject() {
		return NewCompiler(d), nil // nothing is known
	}
	env, err := extend(d.base(), d, t.CelType(), []*apiservercel.DeclType{t})
	if err != nil {
		return nil, err
	}
	return &Compiler{declared: d, env: env, planner: d.planner(), alone: true, variables: &Variables{declared: d}}, nil
}

// UndefinedFields words those mistakes of a compilation that say that a field does not exist, as the API server words
// them, each on one line. Other mistakes are left out: the shapes know no types of scalars.
func UndefinedFields(err error) []string {
	var e *CompileError
	if !errors.As(err, &e) {
		return nil
	}
	var out []string
	// The library prints every mistake as a line that begins with ERROR, with two lines of source behind it.
	for _, text := range strings.Split("\n"+e.text, "\nERROR: ")[1:] {
		if strings.Contains(text, "undefined field '") {
			lines := strings.Split(strings.TrimSpace(text), "\n")
			for i := range lines {
				lines[i] = strings.TrimSpace(lines[i])
			}
			out = append(out, "ERROR: "+strings.Join(lines, "; "))
		}
	}
	return out
}

type shapeBuilder struct{ left int }

// notAName is the name of no field: a shape that has it anyway is a map, or may be anything.
const notAName = "\x00"

func (b *shapeBuilder) build(s Shape, depth int) *apiservercel.DeclType {
	element, isList := s.Element()
	value, isMap := s.Field(notAName)
	names := s.Names()
	if b.left--; b.left < 0 || depth > maxShapeDepth || isList && isMap {
		return apiservercel.DynType
	}
	switch {
	case isList:
		return apiservercel.NewListType(b.build(element, depth+1), -1)
	case isMap && len(names) == 0:
		return apiservercel.NewMapType(apiservercel.StringType, b.build(value, depth+1), -1)
	case isMap || len(names) == 0: // free fields beside known ones, or a scalar
		return apiservercel.DynType
	}
	fields := make(map[string]*apiservercel.DeclField, len(names))
	for _, n := range names {
		escaped, ok := apiservercel.Escape(n)
		if !ok {
			continue
		}
		if f, ok := s.Field(n); ok {
			fields[escaped] = apiservercel.NewDeclField(escaped, b.build(f, depth+1), false, nil, nil)
		}
	}
	return apiservercel.NewObjectType("object", fields)
}
