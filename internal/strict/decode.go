package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/value"
)

// Decode fills out, a pointer to a struct with json tags, from obj. Every unknown field of obj, and every value of the wrong type,
// becomes a diagnostic of severity Error; everything else is decoded. Types with their own UnmarshalJSON method (times, raw JSON) are
// decoded by it. A null does not change a field, unless the field has the tag null:"value": then a null sets a pointer to
// the zero value.
func Decode(obj map[string]any, out any) diag.List { return DecodeAt("", obj, out) }

// DecodeFold is Decode for files whose other readers ignore the case of field names: a name that differs from a field only in case is
// accepted with a warning.
func DecodeFold(obj map[string]any, out any) diag.List {
	d := decoder{fold: true}
	d.value("", obj, reflect.ValueOf(out).Elem())
	return d.diags
}

// DecodeAt is Decode for a part of an object: path is the field path of v, a prefix of the paths of all diagnostics.
func DecodeAt(path string, v any, out any) diag.List {
	rv := reflect.ValueOf(out)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		panic("strict.Decode: out must be a non-nil pointer")
	}
	d := decoder{}
	d.value(path, v, rv.Elem())
	return d.diags
}

type decoder struct {
	diags diag.List
	fold  bool
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (d *decoder) value(path string, v any, out reflect.Value) {
	if v == nil && out.Kind() != reflect.Interface && !rawType(out.Type()) {
		return // null does not change a field, as in encoding/json
	}
	if out.Kind() != reflect.Pointer && reflect.PointerTo(out.Type()).Implements(unmarshaler) {
		d.unmarshal(path, v, out)
		return
	}
	switch out.Kind() {
	case reflect.Pointer:
		p := reflect.New(out.Type().Elem())
		before := len(d.diags)
		d.value(path, v, p.Elem())
		if len(d.diags) == before || out.Type().Elem().Kind() == reflect.Struct {
			out.Set(p)
		}
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			d.mismatch(path, "an object", v)
			return
		}
		d.object(path, m, out)
	case reflect.Slice:
		d.list(path, v, out)
	case reflect.Map:
		d.mapping(path, v, out)
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			d.mismatch(path, "a string", v)
			return
		}
		out.SetString(s)
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			d.mismatch(path, "true or false", v)
			return
		}
		out.SetBool(b)
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, ok := integer(v)
		if !ok || out.OverflowInt(n) {
			d.mismatch(path, "a whole number", v)
			return
		}
		out.SetInt(n)
	case reflect.Interface:
		if v != nil {
			out.Set(reflect.ValueOf(v))
		}
	default:
		d.diags.Errorf(path, "fields of Go type %s cannot be decoded", out.Type())
	}
}

// rawType reports whether a type keeps a JSON null: types whose Unmarshaler stores the text do.
func rawType(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() == 1 && t.Field(0).Name == "Raw" &&
		reflect.PointerTo(t).Implements(unmarshaler)
}

func (d *decoder) unmarshal(path string, v any, out reflect.Value) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = out.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw)
	}
	if err != nil {
		d.diags.Errorf(path, "invalid value: %v", err)
	}
}

func (d *decoder) object(path string, m map[string]any, out reflect.Value) {
	info := structInfoOf(out.Type())
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := join(path, key)
		index, ok := info.fields[key]
		near := ""
		if !ok {
			near = Nearest(key, info.names)
		}
		if d.fold && strings.EqualFold(near, key) {
			_, both := m[near]
			if index, ok = info.fields[near], !both; ok {
				d.diags.Warnf(at, "the field %q is read as %q", key, near)
			}
		}
		if !ok {
			d.diags.Errorf(at, "unknown field %q", key)
			d.diags.Code(diag.UnknownField, key)
			if near != "" {
				d.diags.Hint("did you mean %q?", near)
			} else if len(info.names) <= 12 {
				d.diags.Hint("known fields are %s", strings.Join(info.names, ", "))
			}
			continue
		}
		field := out.FieldByIndex(index)
		if m[key] == nil && info.nulls[key] {
			field.Set(reflect.New(field.Type().Elem()))
			continue
		}
		d.value(at, m[key], field)
	}
}

func (d *decoder) list(path string, v any, out reflect.Value) {
	if s, ok := v.(string); ok && out.Type().Elem().Kind() == reflect.Uint8 {
		if err := json.Unmarshal([]byte(strconv.Quote(s)), out.Addr().Interface()); err != nil {
			d.diags.Errorf(path, "invalid base64: %v", err)
		}
		return
	}
	l, ok := v.([]any)
	if !ok {
		d.mismatch(path, "a list", v)
		return
	}
	s := reflect.MakeSlice(out.Type(), len(l), len(l))
	for i, e := range l {
		d.value(path+"["+strconv.Itoa(i)+"]", e, s.Index(i))
	}
	out.Set(s)
}

func (d *decoder) mapping(path string, v any, out reflect.Value) {
	m, ok := v.(map[string]any)
	if !ok {
		d.mismatch(path, "an object", v)
		return
	}
	t := out.Type()
	res := reflect.MakeMapWithSize(t, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		e := reflect.New(t.Elem()).Elem()
		d.value(join(path, key), m[key], e)
		res.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), e)
	}
	out.Set(res)
}

func (d *decoder) mismatch(path, want string, v any) {
	d.diags.Errorf(path, "expected %s, found %s", want, describe(v))
	d.diags.Code(diag.WrongType)
	if _, isContainer := v.(map[string]any); want == "a string" && !isContainer {
		if _, isList := v.([]any); !isList {
			d.diags.Hint("put the value in quotes")
		}
	}
	if s, isString := v.(string); isString && (want == "true or false" || want == "a whole number") && s != "" {
		d.diags.Hint("remove the quotes")
	}
}

func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the text %q", value.Clip(v, 40))
	case bool:
		return fmt.Sprintf("the boolean %t", v)
	}
	return fmt.Sprintf("the number %v", v)
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n), true
		}
	}
	return 0, false
}

// join appends a key to a field path. It does not quote keys with dots: code that looks up a path in a document (package source) tries
// the longest key first.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
