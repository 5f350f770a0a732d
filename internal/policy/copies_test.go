package policy

import (
	"reflect"
	"slices"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// The two copies of a request have every field, except for those that are named here with their reason.
func TestCopies(t *testing.T) {
	var full Request
	v := reflect.ValueOf(&full.Review).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			fill(v.Field(i))
		}
	}
	object := value.Of(map[string]any{"kind": "Pod"})
	for name, c := range map[string]struct {
		of      *Request
		without []string
	}{
		"WithObject": {full.WithObject(object), []string{
			"Object", // the other one
		}},
		"CreationOfOld": {full.CreationOfOld(), []string{
			"Operation", "Object", "OldObject", // a creation of the old object
			"User",        // one whom no rule matches
			"Subresource", // an object is created as a whole
			"Held",        // only work has it
			"Trace",       // a trace explains the request itself
		}},
	} {
		got := reflect.ValueOf(&c.of.Review).Elem()
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || slices.Contains(c.without, f.Name) {
				continue
			}
			same := reflect.DeepEqual(got.Field(i).Interface(), v.Field(i).Interface())
			if f.Type.Kind() == reflect.Func {
				same = !got.Field(i).IsNil()
			}
			if !same {
				t.Errorf("%s: %s is %v, want %v", name, f.Name, got.Field(i), v.Field(i))
			}
		}
	}
}

// fill sets a value and its exported fields to something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	}
}
