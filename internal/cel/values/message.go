package values

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Shape is the type of a message, or of a part of a message. A message is a document with known fields. As in protocol buffers, an
// unset field has the zero value of its type, and has() returns false for it.
type Shape struct {
	kind    shapeKind
	message *fieldsOf        // for shapeMessage
	element *Shape           // the elements of lists, and the values of maps
	enum    map[string]int64 // the names of an integer's values; nil for plain integers
}

type shapeKind uint8

const (
	shapeText shapeKind = iota
	shapeBool
	shapeInt
	shapeUint
	shapeBytes
	shapeTime
	shapeAny // any JSON object
	shapeList
	shapeMap // a map whose keys are texts
	shapeMessage
)

// fieldsOf holds the fields by the names that expressions use. kind is the type of the values in expressions.
type fieldsOf struct {
	kind   *cel.Type
	fields map[string]*Shape
}

// MessageOf returns the shape of a message with these fields; name is its type in expressions.
func MessageOf(name string, fields map[string]*Shape) *Shape {
	return &Shape{kind: shapeMessage, message: &fieldsOf{cel.ObjectType(name), fields}}
}

var (
	TextShape   = &Shape{kind: shapeText}
	BoolShape   = &Shape{kind: shapeBool}
	IntShape    = &Shape{kind: shapeInt}
	UintShape   = &Shape{kind: shapeUint}
	BytesShape  = &Shape{kind: shapeBytes}
	TimeShape   = &Shape{kind: shapeTime}
	ObjectShape = &Shape{kind: shapeAny}
)

// EnumOf is the shape of a number with named values.
func EnumOf(names map[string]int64) *Shape { return &Shape{kind: shapeInt, enum: names} }

// Type returns the type of a message in expressions.
func (s *Shape) Type() *cel.Type { return s.message.kind }

// ListOf returns the shape of a list, and MapOf that of a map with texts as keys.
func ListOf(of *Shape) *Shape { return &Shape{kind: shapeList, element: of} }
func MapOf(of *Shape) *Shape  { return &Shape{kind: shapeMap, element: of} }

// Declared returns the type for the type checker.
func (s *Shape) Declared() *apiservercel.DeclType {
	switch s.kind {
	case shapeText:
		return apiservercel.StringType
	case shapeBool:
		return apiservercel.BoolType
	case shapeInt:
		return apiservercel.IntType
	case shapeUint:
		return apiservercel.UintType
	case shapeBytes:
		return apiservercel.BytesType
	case shapeTime:
		return apiservercel.TimestampType
	case shapeList:
		return apiservercel.NewListType(s.element.Declared(), -1)
	case shapeMap:
		return apiservercel.NewMapType(apiservercel.StringType, s.element.Declared(), -1)
	case shapeMessage:
		fields := map[string]*apiservercel.DeclField{}
		for name, f := range s.message.fields {
			fields[name] = apiservercel.NewDeclField(name, f.Declared(), false, nil, nil)
		}
		return apiservercel.NewObjectType(s.message.kind.TypeName(), fields)
	}
	return apiservercel.NewMapType(apiservercel.StringType, apiservercel.DynType, -1)
}

// Read converts decoded JSON to a value. path is its path, for errors.
func (s *Shape) Read(v any, path string) (ref.Val, error) {
	if v == nil {
		return s.zero(), nil
	}
	switch s.kind {
	case shapeText:
		if x, ok := v.(string); ok {
			return types.String(x), nil
		}
	case shapeBool:
		if x, ok := v.(bool); ok {
			return types.Bool(x), nil
		}
	case shapeInt:
		if x, ok := v.(string); ok && s.enum != nil {
			n, known := s.enum[x]
			if !known {
				return nil, fmt.Errorf("%s: unknown value %q", path, x)
			}
			return types.Int(n), nil
		}
		if n, ok := wholeNumber(v); ok {
			return types.Int(n), nil
		}
	case shapeUint:
		if n, ok := wholeNumber(v); ok && n >= 0 {
			return types.Uint(n), nil
		}
	case shapeBytes:
		if x, ok := v.(string); ok {
			raw, err := base64.StdEncoding.DecodeString(x)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			return types.Bytes(raw), nil
		}
	case shapeTime:
		if x, ok := v.(string); ok {
			at, err := time.Parse(time.RFC3339Nano, x)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			return types.Timestamp{Time: at.UTC()}, nil
		}
	case shapeList:
		if x, ok := v.([]any); ok {
			return s.readList(x, path)
		}
	case shapeMap:
		if x, ok := v.(map[string]any); ok {
			return s.readMap(x, path)
		}
	case shapeMessage:
		if x, ok := v.(map[string]any); ok {
			return s.message.read(x, path)
		}
	case shapeAny:
		if x, ok := v.(map[string]any); ok {
			return types.DefaultTypeAdapter.NativeToValue(x), nil
		}
	}
	return nil, fmt.Errorf("%s: %s is required", path, s.words())
}

// wholeNumber returns a number without a fraction. The JSON form of protocol buffers also allows 64-bit numbers as texts.
func wholeNumber(v any) (int64, bool) {
	switch x := v.(type) {
	case int64:
		return x, true
	case float64:
		return int64(x), x == math.Trunc(x) && math.Abs(x) <= 1<<53
	}
	return 0, false
}

func (s *Shape) readList(in []any, path string) (ref.Val, error) {
	out := make([]ref.Val, len(in))
	for i, e := range in {
		v, err := s.element.Read(e, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return types.NewRefValList(types.DefaultTypeAdapter, out), nil
}

func (s *Shape) readMap(in map[string]any, path string) (ref.Val, error) {
	out := make(map[ref.Val]ref.Val, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		v, err := s.element.Read(in[name], path+"."+name)
		if err != nil {
			return nil, err
		}
		out[types.String(name)] = v
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, out), nil
}

func (m *fieldsOf) read(in map[string]any, path string) (ref.Val, error) {
	out := &Message{m, map[string]ref.Val{}, in}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		v := in[key]
		name, field := m.field(key)
		if field == nil {
			return nil, fmt.Errorf("%s: unknown field %q; there are %s", path, key, strings.Join(slices.Sorted(maps.Keys(m.fields)), ", "))
		}
		if _, twice := out.fields[name]; twice {
			return nil, fmt.Errorf("%s: the field %s is set twice", path, name)
		}
		made, err := field.Read(v, path+"."+key)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out.fields[name] = made
		}
	}
	return out, nil
}

// field finds a field by its name, or by its name in the JSON form of protocol buffers: portValue for port_value.
func (m *fieldsOf) field(key string) (string, *Shape) {
	if f := m.fields[key]; f != nil {
		return key, f
	}
	for name, f := range m.fields {
		if camelCase(name) == key {
			return name, f
		}
	}
	return "", nil
}

func camelCase(name string) string {
	parts := strings.Split(name, "_")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}

// zero returns the value of an unset field.
func (s *Shape) zero() ref.Val {
	switch s.kind {
	case shapeText:
		return types.String("")
	case shapeBool:
		return types.False
	case shapeInt:
		return types.IntZero
	case shapeUint:
		return types.Uint(0)
	case shapeBytes:
		return types.Bytes{}
	case shapeTime:
		return types.Timestamp{Time: time.Unix(0, 0).UTC()}
	case shapeList:
		return types.NewRefValList(types.DefaultTypeAdapter, nil)
	case shapeMessage:
		return &Message{s.message, nil, map[string]any{}}
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, nil)
}

func (s *Shape) words() string {
	switch s.kind {
	case shapeText:
		return "a text"
	case shapeBool:
		return "true or false"
	case shapeInt, shapeUint:
		return "a whole number"
	case shapeBytes:
		return "a text in base64"
	case shapeTime:
		return "a time (RFC 3339)"
	case shapeList:
		return "a list"
	}
	return "an object"
}

// Message is a value with the fields of a messageShape.
type Message struct {
	of     *fieldsOf
	fields map[string]ref.Val // the fields that are set
	shown  map[string]any     // the JSON form
}

// ConvertToNative implements the library's interface.
func (m *Message) ConvertToNative(t reflect.Type) (any, error) {
	return Opaque{m.of.kind}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (m *Message) ConvertToType(t ref.Type) ref.Val { return Opaque{m.of.kind}.Convert(m, t) }

// Equal implements the library's interface. An unset field equals a field with the zero value.
func (m *Message) Equal(other ref.Val) ref.Val {
	o, ok := other.(*Message)
	if !ok || o.of != m.of {
		return types.False
	}
	for name := range m.of.fields {
		if types.Equal(m.Get(types.String(name)), o.Get(types.String(name))) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements the library's interface.
func (m *Message) Type() ref.Type { return m.of.kind }

// Value implements the library's interface.
func (m *Message) Value() any { return m.shown }

// Document returns the JSON form.
func (m *Message) Document() any { return m.shown }

// Get implements the library's interface.
func (m *Message) Get(index ref.Val) ref.Val {
	field := m.of.fields[Text(index)]
	if field == nil {
		return types.NewErr("no such field '%s'", Text(index))
	}
	if v := m.fields[Text(index)]; v != nil {
		return v
	}
	return field.zero()
}

// IsSet implements the library's interface.
func (m *Message) IsSet(index ref.Val) ref.Val {
	name := Text(index)
	field, v := m.of.fields[name], m.fields[name]
	switch {
	case field == nil:
		return types.NewErr("no such field '%s'", name)
	case v == nil:
		return types.False
	}
	switch field.kind {
	case shapeMessage, shapeTime, shapeAny:
		return types.True
	case shapeList, shapeMap:
		return types.Bool(v.(traits.Sizer).Size() != types.IntZero)
	}
	return types.Bool(v.Equal(field.zero()) != types.True)
}
