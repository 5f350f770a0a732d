package decision

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// message describes how a struct is written, as JSON and as a message of decision.proto. The tags of its fields state it: `json:"name,omitempty"`
// as encoding/json reads it, and `proto:"7"` with the number in decision.proto. With `proto:"7,hex"` the field is text in hex, which is
// bytes in decision.proto. encoding/json reads the JSON form.
type message struct {
	fields   []field  // in the order of the struct: that of JSON
	numbered []*field // in the order of their numbers: that of protobuf
}

// field is one field of a message.
type field struct {
	index    int // in the struct
	form     form
	number   protowire.Number // zero if the field is only in JSON
	key      string           // with quotes and colon
	optional bool             // JSON leaves an empty value out
	of       *message         // of one or many
}

// form is the type of a field.
type form int

const (
	textForm    form = iota
	digestForm       // text in hex
	textsForm        // []string
	flagForm         // a bool
	numberForm       // an int64
	shareForm        // a float64
	instantForm      // a time.Time
	octetsForm       // []byte
	oneForm          // a pointer to a message
	manyForm         // a list of messages
	extrasForm       // a map[string][]string
)

// wire returns the type of the field in protobuf.
func (f form) wire() protowire.Type {
	switch f {
	case flagForm, numberForm, instantForm:
		return protowire.VarintType
	case shareForm:
		return protowire.Fixed64Type
	}
	return protowire.BytesType
}

// extra is one member of a map, as message Extra.
type extra struct {
	Key    string   `json:"key" proto:"1"`
	Values []string `json:"values" proto:"2"`
}

var (
	recordMessage = messageOf(reflect.TypeFor[Record]())
	bodyMessage   = messageOf(reflect.TypeFor[Body]())
	extraMessage  = messageOf(reflect.TypeFor[extra]())
)

// messageOf returns the description of a struct. It panics if a field cannot be written; every test would find that.
func messageOf(t reflect.Type) *message {
	m := &message{fields: make([]field, t.NumField())}
	for i := range m.fields {
		x, f := t.Field(i), &m.fields[i]
		name, options, _ := strings.Cut(x.Tag.Get("json"), ",")
		*f = field{index: i, key: `"` + name + `":`, optional: options == "omitempty"}
		number, inHex, _ := strings.Cut(x.Tag.Get("proto"), ",")
		if n, err := strconv.Atoi(number); err == nil {
			f.number = protowire.Number(n)
			m.numbered = append(m.numbered, f)
		}
		if f.form = formOf(x.Type); inHex == "hex" {
			f.form = digestForm
		}
		if f.form == oneForm || f.form == manyForm {
			f.of = messageOf(x.Type.Elem())
		}
	}
	slices.SortFunc(m.numbered, func(a, b *field) int { return cmp.Compare(a.number, b.number) })
	return m
}

func formOf(t reflect.Type) form {
	switch t.Kind() {
	case reflect.String:
		return textForm
	case reflect.Bool:
		return flagForm
	case reflect.Int64:
		return numberForm
	case reflect.Float64:
		return shareForm
	case reflect.Pointer:
		return oneForm
	case reflect.Slice:
		switch t.Elem().Kind() {
		case reflect.String:
			return textsForm
		case reflect.Uint8:
			return octetsForm
		case reflect.Struct:
			return manyForm
		}
	case reflect.Map:
		return extrasForm
	}
	if t == reflect.TypeFor[time.Time]() {
		return instantForm
	}
	panic(fmt.Sprintf("a field of a record has the type %s", t))
}

// empty reports whether a field is left out: in protobuf, and in JSON if it is optional.
func (f *field) empty(at reflect.Value) bool {
	switch f.form {
	case textsForm, octetsForm, manyForm, extrasForm:
		return at.Len() == 0
	case shareForm:
		return at.Float() == 0 // minus zero, too
	case instantForm:
		t := at.Addr().Interface().(*time.Time)
		return t.IsZero() || t.UnixNano() == 0
	}
	return at.IsZero()
}
