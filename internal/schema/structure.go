package schema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"ephor.invalid/ephor/internal/kubeversion"
)

// structure is a Go struct of the API, examined field by field. It has the fields of one version of Kubernetes.
type structure struct {
	t      reflect.Type
	server kubeversion.Minor
}

var (
	marshaler = reflect.TypeFor[json.Marshaler]()
	opaque    = []reflect.Type{reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[intstr.IntOrString]()}
)

// of returns the type of the JSON values that encode a Go type in a version of Kubernetes.
func of(t reflect.Type, server kubeversion.Minor) Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case slices.Contains(opaque, t):
		return Any
	case t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler):
		if t.Kind() == reflect.Struct && strings.HasSuffix(t.PkgPath(), "/apiextensions/v1") {
			return Any // JSON of any form
		}
		return scalar{"string"} // times, quantities
	}
	switch t.Kind() {
	case reflect.Struct:
		return structure{t, server}
	case reflect.Map:
		return mapping{of(t.Elem(), server)}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return scalar{"string"} // bytes are encoded as text
		}
		return list{of(t.Elem(), server)}
	case reflect.Interface:
		return Any
	case reflect.Bool:
		return scalar{"boolean"}
	case reflect.String:
		return scalar{"string"}
	case reflect.Float32, reflect.Float64:
		return scalar{"number"}
	}
	return scalar{"integer"}
}

func (s structure) Element() (Type, bool) { return nil, false }

func (s structure) Field(name string) (Type, bool) {
	var found Type
	s.each(func(n string, t reflect.Type) bool {
		if n == name {
			found = of(t, s.server)
		}
		return found == nil
	})
	return found, found != nil
}

func (s structure) Names() []string {
	var out []string
	s.each(func(n string, _ reflect.Type) bool { out = append(out, n); return true })
	slices.Sort(out)
	return out
}

// each calls f for the members, including those of embedded structs, until it returns false.
func (s structure) each(f func(name string, t reflect.Type) bool) bool {
	for i := range s.t.NumField() {
		field := s.t.Field(i)
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case tag == "-":
		case tag == "" && (field.Anonymous || strings.Contains(options, "inline")):
			inner := field.Type
			for inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && !(structure{inner, s.server}).each(f) {
				return false
			}
		case tag != "" && s.since(tag) <= s.server:
			if !f(tag, field.Type) {
				return false
			}
		}
	}
	return true
}
