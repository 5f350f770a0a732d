package celenv

import (
	"errors"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Shape describes what is known about the fields of a value.
type Shape interface {
	// Field returns the shape of a member. ok is false if no member can have that name.
	Field(name string) (s Shape, ok bool)
	// Element returns the shape of the elements of a list. ok is false if the value is not a list.
	Element() (s Shape, ok bool)
	// Names returns the names of the known members; none for maps, lists and scalars.
	Names() []string
}

// Limits for the shape of a kind. They are necessary because the schema of a CustomResourceDefinition refers to itself.
const (
	maxShapeDepth = 14
	maxShapeTypes = 20_000
)

// NewTypeCheck returns a Compiler that knows the fields of object and oldObject. name is the name of their kind. The
// compiled expressions are not for evaluation: call UndefinedFields on the errors to find fields that cannot exist.
func NewTypeCheck(d Declarations, name string, object Shape) (*Compiler, error) {
	b := shapeBuilder{left: maxShapeTypes}
	t := b.build(object, 0).MaybeAssignTypeName("kubernetes.object." + name)
	if !t.IsObject() {
		return NewCompiler(d), nil // nothing is known about the object
	}
	env, err := extend(d.base(), d, t.CelType(), []*apiservercel.DeclType{t})
	if err != nil {
		return nil, err
	}
	return &Compiler{declared: d, env: env, planner: d.planner(), alone: true, variables: &Variables{declared: d}}, nil
}

// UndefinedFields returns the mistakes about fields that do not exist, with the API server's texts, each on one line.
// It omits other mistakes, since shapes do not know the types of scalars.
func UndefinedFields(err error) []string {
	var e *CompileError
	if !errors.As(err, &e) {
		return nil
	}
	var out []string
	// The library prints every mistake as a line that begins with ERROR, followed by two lines of source.
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

// notAName is not the name of any field. A shape that has such a field is a map, or may be anything.
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
			fields[escaped] = apiservercel.NewDeclField(escaped, b.build(f, depth+1), false, nil, nil)
		}
	}
	return apiservercel.NewObjectType("object", fields)
}
