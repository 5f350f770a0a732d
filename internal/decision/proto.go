package decision

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"ephor.invalid/ephor/internal/world/taped"
)

// digest is a digest in hex. In protobuf it is bytes.
type digest string

// field is one field of a message of decision.proto: its number, and a pointer to its value.
type field struct {
	number protowire.Number
	at     any
}

// fields returns the fields of message Record.
func (r *Record) fields(at *time.Time) []field {
	return []field{
		{1, &r.Schema}, {2, at}, {3, &r.Duration}, {4, &r.UID}, {5, &r.Webhook}, {6, &r.User}, {7, &r.Groups}, {8, &r.Operation}, {9, &r.Group},
		{10, &r.Version}, {11, &r.Kind}, {12, &r.Subresource}, {13, &r.Namespace}, {14, &r.Name}, {15, &r.DryRun}, {16, (*string)(&r.Verdict)},
		{17, &r.Allowed}, {18, &r.Message}, {19, &r.Share}, {20, (*digest)(&r.Policies)}, {21, (*digest)(&r.Object)}, {22, (*digest)(&r.Patch)},
		{23, &r.Rules}, {24, &r.Cluster}, {25, &r.Request},
	}
}

// fields returns the fields of message Result.
func (x *Result) fields() []field {
	return []field{
		{1, &x.Policy}, {2, &x.Rule}, {3, &x.Status}, {4, &x.Action}, {5, &x.Message}, {6, &x.Path}, {7, &x.Exceptions}, {8, &x.Duration},
	}
}

// fields returns the fields of message Request.
func (q *Request) fields() []field {
	return []field{
		{1, &q.Group}, {2, &q.Version}, {3, &q.Resource}, {4, &q.Asked}, {5, &q.Anonymous}, {6, &q.UserUID}, {7, &q.UserExtra},
		{8, &q.Object}, {9, &q.OldObject}, {10, &q.Options}, {11, &q.Cut}, {12, &q.Lookups},
	}
}

// fields returns the fields of message Lookups.
func (l *Lookups) fields() []field {
	return []field{{1, &l.List}, {2, (*digest)(&l.Salt)}, {3, &l.Lacks}, {4, &l.Clipped}}
}

// fields returns the fields of message Lookup.
func (l *Lookup) fields() []field {
	return []field{{1, &l.Method}, {2, &l.Reach}, {3, &l.Asked}, {4, (*digest)(&l.Digest)}, {5, &l.Answer}, {6, &l.Error}, {7, &l.Unknown}}
}

// failureFields returns the fields of message Failure.
func failureFields(f *taped.Failure) []field {
	return []field{{1, &f.Text}, {2, &f.Cause}, {3, &f.Args}}
}

// fields returns the fields of message Asked.
func (a *Asked) fields() []field {
	return []field{{1, &a.Group}, {2, &a.Version}, {3, &a.Kind}, {4, &a.Resource}, {5, &a.Subresource}}
}

// fields returns the fields of message Body.
func (b *Body) fields() []field {
	return []field{{1, (*digest)(&b.Digest)}, {2, &b.Deflated}}
}

// extra is one message Extra.
type extra struct {
	key    string
	values []string
}

// fields returns the fields of message Extra.
func (x *extra) fields() []field { return []field{{1, &x.key}, {2, &x.values}} }

// AppendProto appends the record as message Record of decision.proto. It leaves out empty fields. It writes the fields that the method fields
// lists, but does not build that list for each result: a batch has thousands of them.
func (r *Record) AppendProto(b []byte) ([]byte, error) {
	b = appendText(b, 1, r.Schema)
	if !r.Time.IsZero() {
		b = appendNumber(b, 2, r.Time.UnixNano())
	}
	b = appendNumber(b, 3, int64(r.Duration))
	b = appendText(appendText(appendText(b, 4, r.UID), 5, r.Webhook), 6, r.User)
	b = appendTexts(b, 7, r.Groups)
	b = appendText(appendText(appendText(b, 8, r.Operation), 9, r.Group), 10, r.Version)
	b = appendText(appendText(b, 11, r.Kind), 12, r.Subresource)
	b = appendText(appendText(b, 13, r.Namespace), 14, r.Name)
	b = appendFlag(b, 15, r.DryRun)
	b = appendText(b, 16, string(r.Verdict))
	b = appendFlag(b, 17, r.Allowed)
	b = appendText(b, 18, r.Message)
	b = appendShare(b, 19, r.Share)
	var err error
	for i, text := range [...]string{r.Policies, r.Object, r.Patch} {
		if b, err = appendDigest(b, protowire.Number(20+i), text); err != nil {
			return nil, err
		}
	}
	for i := range r.Rules {
		b = protowire.AppendTag(b, 23, protowire.BytesType)
		began := len(b)
		b = enclose(r.Rules[i].appendProto(b), began)
	}
	b = appendText(b, 24, r.Cluster)
	if r.Request == nil {
		return b, nil
	}
	return appendMessage(b, 25, r.Request.fields())
}

// appendProto appends the fields that the method fields lists.
func (x *Result) appendProto(b []byte) []byte {
	b = appendText(appendText(b, 1, x.Policy), 2, x.Rule)
	b = appendText(appendText(b, 3, x.Status), 4, x.Action)
	b = appendText(appendText(b, 5, x.Message), 6, x.Path)
	return appendNumber(appendTexts(b, 7, x.Exceptions), 8, int64(x.Duration))
}

// ErrProto is the error for bytes that do not match decision.proto.
var ErrProto = errors.New("it is not a message of decision.proto")

// MergeProto sets the fields that the message has, and appends to lists. Unknown fields are ignored, since a newer version may have added them.
func (r *Record) MergeProto(b []byte) error { return mergeFields(b, r.fields(&r.Time)) }

// AppendProto appends the body as message Body.
func (b *Body) AppendProto(to []byte) ([]byte, error) { return appendFields(to, b.fields()) }

// MergeProto sets the fields that the message has.
func (b *Body) MergeProto(from []byte) error { return mergeFields(from, b.fields()) }

func appendFields(b []byte, fields []field) ([]byte, error) {
	for _, f := range fields {
		switch at := f.at.(type) {
		case *string:
			b = appendText(b, f.number, *at)
		case *[]string:
			b = appendTexts(b, f.number, *at)
		case *digest:
			var err error
			if b, err = appendDigest(b, f.number, string(*at)); err != nil {
				return nil, err
			}
		case *bool:
			b = appendFlag(b, f.number, *at)
		case *float64:
			b = appendShare(b, f.number, *at)
		case *time.Duration:
			b = appendNumber(b, f.number, int64(*at))
		case *time.Time:
			if !at.IsZero() {
				b = appendNumber(b, f.number, at.UnixNano())
			}
		case *[]byte:
			if len(*at) > 0 {
				b = protowire.AppendBytes(protowire.AppendTag(b, f.number, protowire.BytesType), *at)
			}
		default:
			for _, inner := range messagesOf(f.at) {
				var err error
				if b, err = appendMessage(b, f.number, inner); err != nil {
					return nil, err
				}
			}
		}
	}
	return b, nil
}

// messagesOf returns the fields of each message that a field contains.
func messagesOf(at any) (out [][]field) {
	switch at := at.(type) {
	case *[]Result:
		for i := range *at {
			out = append(out, (*at)[i].fields())
		}
	case **Request:
		if *at != nil {
			out = append(out, (*at).fields())
		}
	case **Asked:
		if *at != nil {
			out = append(out, (*at).fields())
		}
	case **Lookups:
		if *at != nil {
			out = append(out, (*at).fields())
		}
	case *[]Lookup:
		for i := range *at {
			out = append(out, (*at)[i].fields())
		}
	case **taped.Failure:
		if *at != nil {
			out = append(out, failureFields(*at))
		}
	case **Body:
		if *at != nil {
			out = append(out, (*at).fields())
		}
	case *map[string][]string:
		for _, key := range slices.Sorted(maps.Keys(*at)) {
			x := extra{key, (*at)[key]}
			out = append(out, x.fields())
		}
	default:
		panic(fmt.Sprintf("a field has the type %T", at)) // a mistake in a list of fields; every test finds it
	}
	return out
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendNumber(b []byte, number protowire.Number, n int64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(n))
}

func appendTexts(b []byte, number protowire.Number, texts []string) []byte {
	for _, text := range texts {
		b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
	}
	return b
}

func appendFlag(b []byte, number protowire.Number, set bool) []byte {
	if !set {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), 1)
}

func appendShare(b []byte, number protowire.Number, share float64) []byte {
	if share == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), math.Float64bits(share))
}

func appendDigest(b []byte, number protowire.Number, text string) ([]byte, error) {
	if text == "" {
		return b, nil
	}
	b = protowire.AppendTag(b, number, protowire.BytesType)
	began := len(b)
	b, err := hex.AppendDecode(b, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("the digest %q: %w", text, err)
	}
	return enclose(b, began), nil
}

func appendMessage(b []byte, number protowire.Number, fields []field) ([]byte, error) {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	began := len(b)
	b, err := appendFields(b, fields)
	if err != nil {
		return nil, err
	}
	return enclose(b, began), nil
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

func mergeFields(b []byte, fields []field) error {
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
		value := b[:size]
		b = b[size:]
		for _, f := range fields {
			if f.number != number {
				continue
			}
			if err := mergeField(f.at, kind, value); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// mergeField sets one field to an encoded value, which must be complete.
func mergeField(to any, kind protowire.Type, value []byte) error {
	want := protowire.BytesType
	switch to.(type) {
	case *bool, *time.Duration, *time.Time:
		want = protowire.VarintType
	case *float64:
		want = protowire.Fixed64Type
	}
	if kind != want {
		return ErrProto
	}
	switch kind {
	case protowire.VarintType:
		n, _ := protowire.ConsumeVarint(value)
		switch at := to.(type) {
		case *bool:
			*at = n != 0
		case *time.Duration:
			*at = time.Duration(n)
		case *time.Time:
			*at = time.Unix(0, int64(n)).UTC()
		}
	case protowire.Fixed64Type:
		n, _ := protowire.ConsumeFixed64(value)
		*to.(*float64) = math.Float64frombits(n)
	default:
		inner, _ := protowire.ConsumeBytes(value)
		switch at := to.(type) {
		case *string:
			*at = string(inner)
		case *[]string:
			*at = append(*at, string(inner))
		case *digest:
			*at = digest(hex.EncodeToString(inner))
		case *[]byte:
			*at = bytes.Clone(inner)
		default:
			return mergeMessage(to, inner)
		}
	}
	return nil
}

// mergeMessage merges a message into a field.
func mergeMessage(to any, text []byte) error {
	switch at := to.(type) {
	case *[]Result:
		*at = append(*at, Result{})
		return mergeFields(text, (*at)[len(*at)-1].fields())
	case **Request:
		if *at == nil {
			*at = &Request{}
		}
		return mergeFields(text, (*at).fields())
	case **Asked:
		if *at == nil {
			*at = &Asked{}
		}
		return mergeFields(text, (*at).fields())
	case **Lookups:
		if *at == nil {
			*at = &Lookups{}
		}
		return mergeFields(text, (*at).fields())
	case *[]Lookup:
		*at = append(*at, Lookup{})
		return mergeFields(text, (*at)[len(*at)-1].fields())
	case **taped.Failure:
		if *at == nil {
			*at = &taped.Failure{}
		}
		return mergeFields(text, failureFields(*at))
	case **Body:
		if *at == nil {
			*at = &Body{}
		}
		return mergeFields(text, (*at).fields())
	case *map[string][]string:
		var x extra
		if err := mergeFields(text, x.fields()); err != nil {
			return err
		}
		if *at == nil {
			*at = map[string][]string{}
		}
		(*at)[x.key] = x.values
	}
	return nil
}
