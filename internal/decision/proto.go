package decision

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendProto appends the record as message Record of decision.proto. It leaves out empty fields.
func (r *Record) AppendProto(b []byte) ([]byte, error) {
	return recordMessage.appendProto(b, reflect.ValueOf(r).Elem())
}

// MergeProto sets the fields that the message has, and appends to lists. Unknown fields are ignored, since a newer version may have added them.
func (r *Record) MergeProto(from []byte) error {
	return recordMessage.merge(reflect.ValueOf(r).Elem(), from)
}

// AppendProto appends the body as message Body.
func (b *Body) AppendProto(to []byte) ([]byte, error) {
	return bodyMessage.appendProto(to, reflect.ValueOf(b).Elem())
}

// MergeProto sets the fields that the message has.
func (b *Body) MergeProto(from []byte) error {
	return bodyMessage.merge(reflect.ValueOf(b).Elem(), from)
}

func (m *message) appendProto(b []byte, v reflect.Value) (_ []byte, err error) {
	for _, f := range m.numbered {
		at := v.Field(f.index)
		if f.empty(at) {
			continue
		}
		began := len(b)
		b = protowire.AppendTag(b, f.number, f.form.wire())
		switch f.form {
		case textForm:
			b = protowire.AppendString(b, at.String())
		case digestForm:
			from := len(b)
			if b, err = hex.AppendDecode(b, []byte(at.String())); err != nil {
				return nil, fmt.Errorf("the digest %q: %w", at.String(), err)
			}
			b = enclose(b, from)
		case textsForm:
			b = b[:began]
			for _, text := range *at.Addr().Interface().(*[]string) {
				b = protowire.AppendString(protowire.AppendTag(b, f.number, protowire.BytesType), text)
			}
		case flagForm:
			b = protowire.AppendVarint(b, 1)
		case numberForm:
			b = protowire.AppendVarint(b, uint64(at.Int()))
		case shareForm:
			b = protowire.AppendFixed64(b, math.Float64bits(at.Float()))
		case instantForm:
			b = protowire.AppendVarint(b, uint64(at.Addr().Interface().(*time.Time).UnixNano()))
		case octetsForm:
			b = protowire.AppendBytes(b, at.Bytes())
		case oneForm:
			from := len(b)
			if b, err = f.of.appendProto(b, at.Elem()); err != nil {
				return nil, err
			}
			b = enclose(b, from)
		case manyForm:
			b = b[:began]
			for i := range at.Len() {
				b = protowire.AppendTag(b, f.number, protowire.BytesType)
				from := len(b)
				if b, err = f.of.appendProto(b, at.Index(i)); err != nil {
					return nil, err
				}
				b = enclose(b, from)
			}
		case extrasForm:
			b = b[:began]
			members := at.Interface().(map[string][]string)
			for _, key := range slices.Sorted(maps.Keys(members)) {
				b = protowire.AppendTag(b, f.number, protowire.BytesType)
				from := len(b)
				if b, err = extraMessage.appendProto(b, reflect.ValueOf(&extra{key, members[key]}).Elem()); err != nil {
					return nil, err
				}
				b = enclose(b, from)
			}
		}
	}
	return b, nil
}

// enclose inserts the length of the bytes from began on before them.
func enclose(b []byte, began int) []byte {
	n := len(b) - began
	size := protowire.SizeVarint(uint64(n))
	b = append(b, "          "[:size]...)
	copy(b[began+size:], b[began:began+n])
	protowire.AppendVarint(b[:began], uint64(n)) // the slice has room
	return b
}

// ErrProto is the error for bytes that do not match decision.proto.
var ErrProto = errors.New("it is not a message of decision.proto")

// merge sets the fields of a struct that the message has.
func (m *message) merge(v reflect.Value, b []byte) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ErrProto
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return ErrProto
		}
		for _, f := range m.numbered {
			if f.number != number {
				continue
			}
			if kind != f.form.wire() {
				return ErrProto
			}
			if err := f.merge(v.Field(f.index), b[:size]); err != nil {
				return err
			}
			break
		}
		b = b[size:]
	}
	return nil
}

// merge sets a field to a value in protobuf, or appends the value to a list.
func (f *field) merge(at reflect.Value, b []byte) error {
	switch f.form.wire() {
	case protowire.VarintType:
		n, _ := protowire.ConsumeVarint(b)
		switch f.form {
		case flagForm:
			at.SetBool(n != 0)
		case numberForm:
			at.SetInt(int64(n))
		case instantForm:
			*at.Addr().Interface().(*time.Time) = time.Unix(0, int64(n)).UTC()
		}
		return nil
	case protowire.Fixed64Type:
		n, _ := protowire.ConsumeFixed64(b)
		at.SetFloat(math.Float64frombits(n))
		return nil
	}
	inner, _ := protowire.ConsumeBytes(b)
	switch f.form {
	case textForm:
		at.SetString(string(inner))
	case digestForm:
		at.SetString(hex.EncodeToString(inner))
	case textsForm:
		list := at.Addr().Interface().(*[]string)
		*list = append(*list, string(inner))
	case octetsForm:
		at.SetBytes(slices.Clone(inner))
	case oneForm:
		if at.IsNil() {
			at.Set(reflect.New(at.Type().Elem()))
		}
		return f.of.merge(at.Elem(), inner)
	case manyForm:
		at.Set(reflect.Append(at, reflect.Zero(at.Type().Elem())))
		return f.of.merge(at.Index(at.Len()-1), inner)
	case extrasForm:
		var x extra
		if err := extraMessage.merge(reflect.ValueOf(&x).Elem(), inner); err != nil {
			return err
		}
		if at.IsNil() {
			at.Set(reflect.ValueOf(map[string][]string{}))
		}
		at.Interface().(map[string][]string)[x.Key] = x.Values
	}
	return nil
}
