package decision

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"ephor.invalid/ephor/internal/value"
)

// AppendJSON appends the record as encoding/json writes it with SetEscapeHTML(false).
func (r *Record) AppendJSON(b []byte) ([]byte, error) {
	return recordMessage.appendJSON(b, reflect.ValueOf(r).Elem())
}

func (m *message) appendJSON(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '{')
	began := len(b)
	for i := range m.fields {
		f := &m.fields[i]
		at := v.Field(f.index)
		if f.optional && f.empty(at) {
			continue
		}
		if len(b) > began {
			b = append(b, ',')
		}
		var err error
		if b, err = f.appendJSON(append(b, f.key...), at); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (f *field) appendJSON(b []byte, at reflect.Value) (_ []byte, err error) {
	switch f.form {
	case textForm, digestForm:
		b = value.AppendString(b, at.String())
	case textsForm:
		b = appendList(b, *at.Addr().Interface().(*[]string))
	case flagForm:
		b = strconv.AppendBool(b, at.Bool())
	case numberForm:
		b = strconv.AppendInt(b, at.Int(), 10)
	case shareForm:
		x := at.Float()
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("the share %v is not a JSON number", x)
		}
		b = value.AppendJSON(b, x)
	case instantForm:
		if b, err = at.Addr().Interface().(*time.Time).AppendText(append(b, '"')); err != nil {
			return nil, err
		}
		b = append(b, '"')
	case octetsForm:
		b = append(base64.StdEncoding.AppendEncode(append(b, '"'), at.Bytes()), '"')
	case oneForm:
		return f.of.appendJSON(b, at.Elem())
	case manyForm:
		next := byte('[')
		for i := range at.Len() {
			if b, err = f.of.appendJSON(append(b, next), at.Index(i)); err != nil {
				return nil, err
			}
			next = ','
		}
		b = append(b, ']')
	case extrasForm:
		members, next := at.Interface().(map[string][]string), byte('{')
		for _, key := range slices.Sorted(maps.Keys(members)) {
			b = append(value.AppendString(append(b, next), key), ':')
			b, next = appendList(b, members[key]), ','
		}
		b = append(b, '}')
	}
	return b, nil
}

func appendList(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, text := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = value.AppendString(b, text)
	}
	return append(b, ']')
}
