package pss

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// form is the JSON form of a Go type.
type form uint8

const (
	anything form = iota
	object
	dictionary // a map with any keys
	list
	text
	boolean
	integer
	number
	binary   // text in base64
	quantity // text or number
	intOrText
	instant // a time
)

// shape describes the JSON of a type: what a value must be to decode without an error. It is derived from the Go type once,
// so that checking a value only walks over the value and needs no reflection.
type shape struct {
	form   form
	fields map[string]*shape // of an object
	elem   *shape            // of a list or dictionary
	size   int               // memory of a decoded value in bytes, without what it points to
	low    int64             // of an integer
	high   int64
}

// shapes derives shapes, each once per process, when a kind is first used.
var shapes = struct {
	sync.Mutex
	known map[reflect.Type]*shape
}{known: map[reflect.Type]*shape{}}

func shapeOf(t reflect.Type) *shape {
	shapes.Lock()
	defer shapes.Unlock()
	return derive(t)
}

func derive(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := shapes.known[t]; ok {
		return s
	}
	s := &shape{size: int(t.Size())}
	shapes.known[t] = s // before its parts, since types may contain themselves
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		s.form = custom(t)
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.form, s.fields = object, map[string]*shape{}
		addFields(s, t)
	case reflect.Map:
		s.form, s.elem = dictionary, derive(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			s.form = binary
		} else {
			s.form, s.elem = list, derive(t.Elem())
		}
	case reflect.String:
		s.form = text
	case reflect.Bool:
		s.form = boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.form = integer
		s.high = 1<<(t.Bits()-1) - 1
		s.low = -s.high - 1
	case reflect.Float32, reflect.Float64:
		s.form = number
	}
	return s
}

// custom returns the form of types that decode themselves. A type that is not listed here accepts any value.
func custom(t reflect.Type) form {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return quantity
	case reflect.TypeFor[intstr.IntOrString]():
		return intOrText
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return instant
	}
	return anything
}

// addFields adds the fields of a struct under their JSON names, including those of embedded structs.
func addFields(s *shape, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			embedded := f.Type
			for embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			addFields(s, embedded)
		default:
			if name == "" {
				name = f.Name
			}
			s.fields[name] = derive(f.Type)
		}
	}
}
