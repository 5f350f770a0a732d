package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"sync"
	"testing"
)

func checkEncode(t *testing.T, v any) {
	t.Helper()
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	if got := JSON(v); got != string(bytes.TrimSuffix(want.Bytes(), []byte("\n"))) {
		t.Fatalf("JSON(%#v) = %s, encoding/json writes %s", v, got, want.String())
	}
	if _, err := DecodeJSON([]byte(JSON(v))); err != nil {
		t.Fatalf("%#v is not read back: %v", v, err)
	}
}

func TestJSONLikeEncodingJSON(t *testing.T) {
	for _, v := range []any{
		nil, true, false, int64(math.MaxInt64), int64(math.MinInt64), 0.0, math.Copysign(0, -1), 1.0, 1.5, 1e20, 1e21, 123456789012345680000.0, 1e-6, 1e-7, 1e-10, 9007199254740993.0, math.MaxFloat64, math.SmallestNonzeroFloat64, -2.5e-9,
		"", "a<b>&c", "\"\\\b\f\n\r\t\x00\x1f\x7f", "é\u2028\u2029\U0001F600", "a\xffb", []any{}, []any(nil), map[string]any{}, map[string]any(nil),
		map[string]any{"b": 1.0, "a": []any{nil, "x", map[string]any{"é": false}}, "": int64(3)},
	} {
		checkEncode(t, v)
	}
	if got := JSON(math.NaN()) + JSON(math.Inf(1)); got != "nullnull" {
		t.Errorf("NaN and infinity: %s", got)
	}
	if got := JSON(map[string]string{"b": "<", "a": "y"}); got != `{"a":"y","b":"<"}` {
		t.Errorf("a typed map: %s", got)
	}
	if v, err := DecodeJSON(pod(t)); err != nil {
		t.Error(err)
	} else {
		checkEncode(t, v)
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{nil, nil, true}, {nil, false, false}, {"a", "a", true}, {"a", "b", false}, {"1", int64(1), false}, {true, true, true}, {true, "true", false},
		{int64(1), 1.0, true}, {1.0, int64(1), true}, {1.5, int64(1), false}, {1.5, 1.5, true}, {1, int64(1), true},
		{int64(9007199254740993), int64(9007199254740992), false},
		{[]any{int64(1)}, []any{1.0}, true}, {[]any{int64(1)}, []any{1.0, nil}, false}, {[]any{"a", "b"}, []any{"b", "a"}, false}, {[]any{}, nil, false},
		{map[string]any{"a": int64(1)}, map[string]any{"a": 1.0}, true}, {map[string]any{"a": nil}, map[string]any{"b": nil}, false}, {map[string]any{"a": nil}, map[string]any{}, false},
	} {
		if got := Equal(c.a, c.b); got != c.want {
			t.Errorf("Equal(%#v, %#v) = %v", c.a, c.b, got)
		}
		if got := Equal(c.b, c.a); got != c.want {
			t.Errorf("Equal(%#v, %#v) = %v", c.b, c.a, got)
		}
	}
}

func TestDoc(t *testing.T) {
	var none *Doc
	if v, err := none.Value(); v != nil || err != nil {
		t.Errorf("nil Doc: %v, %v", v, err)
	}
	if m, err := none.Map(); m != nil || err != nil || none.Text() != "" {
		t.Errorf("nil Doc: %v, %v", m, err)
	}
	if m, err := FromJSON(`null`).Map(); m != nil || err != nil {
		t.Errorf("null: %v, %v", m, err)
	}
	if v, err := FromJSON("").Value(); v != nil || err != nil {
		t.Errorf("no text: %v, %v", v, err)
	}
	if _, err := FromJSON(`[1]`).Map(); err == nil || err.Error() != "the document is not an object but a list" {
		t.Errorf("a list: %v", err)
	}
	broken := FromJSON(`{`)
	_, first := broken.Value()
	_, second := broken.Map()
	if first == nil || !errors.Is(second, first) {
		t.Errorf("broken: %v, then %v", first, second)
	}
	d := FromJSON(string(pod(t)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if m, err := d.Map(); err != nil || m["kind"] != "Pod" {
				t.Errorf("%v, %v", m["kind"], err)
			}
		})
	}
	wg.Wait()
}

func TestReader(t *testing.T) {
	r := NewReader(` {"uid":"a\u0062","dryRun":true,"skipped":{"x":[1,{"y":2}]},"object":{"a":9007199254740993},"raw": [1, 2] ,"list":["x",null],"old":null,"none":null,"flag":null} `)
	var uid, list string
	var dry, old, flag bool
	var object any
	var raw string
	none := "?"
	err := r.Object(func(key string) (err error) {
		switch key {
		case "uid":
			uid, err = r.String()
		case "dryRun":
			dry, err = r.Bool()
		case "object":
			object, err = r.Any()
		case "raw":
			raw, err = r.Raw()
		case "list":
			err = r.Array(func(i int) error {
				s, err := r.String()
				list += string(rune('0'+i)) + s
				return err
			})
		case "old":
			old = r.Null()
		case "none":
			none, err = r.String()
		case "flag":
			flag, err = r.Bool()
		}
		return err
	})
	if err == nil {
		err = r.End()
	}
	if err != nil || uid != "ab" || !dry || !Equal(object, map[string]any{"a": int64(9007199254740993)}) || raw != "[1, 2]" || list != "0x1" || !old || none != "" || flag {
		t.Errorf("%q %v %v %q %q %v %q %v %v", uid, dry, object, raw, list, old, none, flag, err)
	}
	const object2 = `{"kind":"X","metadata":{"name":"a","managedFields":[{"f:metadata":{}}],"labels":{"managedFields":"kept"}},"spec":{"metadata":{"managedFields":"kept"},"managedFields":1}}`
	but := &Fields{}
	but.Member("kind")
	but.Member("spec")
	but.Member("metadata").ReadAllBut("managedFields")
	lean := NewReader(`[` + object2 + `,` + object2 + `]`)
	var got []any
	if err := lean.Array(func(i int) error {
		var fields *Fields
		if i == 0 {
			fields = but
		}
		v, err := lean.AnyOf(fields)
		got = append(got, v)
		return err
	}); err != nil || JSON(got) != `[{"kind":"X","metadata":{"labels":{"managedFields":"kept"},"name":"a"},"spec":{"managedFields":1,"metadata":{"managedFields":"kept"}}},`+
		`{"kind":"X","metadata":{"labels":{"managedFields":"kept"},"managedFields":[{"f:metadata":{}}],"name":"a"},"spec":{"managedFields":1,"metadata":{"managedFields":"kept"}}}]` {
		t.Errorf("AnyOf: %s, %v", JSON(got), err)
	}
	if _, err := NewReader(`{"metadata":{"managedFields":[}}`).AnyOf(but); err == nil {
		t.Error("a mistake in what is left out goes unnoticed")
	}
	stop := errors.New("stop")
	if err := NewReader(`{"a":1}`).Object(func(string) error { return stop }); err != stop {
		t.Errorf("error of the callback: %v", err)
	}
	for text, read := range map[string]func(*Reader) error{
		`expected a string, found a number at offset 1`:  func(r *Reader) error { _, err := r.String(); return err },
		`expected an object, found a number at offset 1`: func(r *Reader) error { return r.Object(nil) },
		`expected a list, found a number at offset 1`:    func(r *Reader) error { return r.Array(nil) },
		`expected a boolean, found a number at offset 1`: func(r *Reader) error { _, err := r.Bool(); return err },
	} {
		if err := read(NewReader(` 1`)); err == nil || err.Error() != text {
			t.Errorf("got %v, want %s", err, text)
		}
	}
	r = NewReader(`{"a":`)
	if err := r.Object(func(string) error { _, err := r.Any(); return err }); err == nil {
		t.Error("an unfinished object is no error")
	}
}

func TestSize(t *testing.T) {
	for _, v := range []any{nil, "text", 1.0, int64(-12), []any{}, []any{1.0, "a"}, map[string]any{}, map[string]any{"a": []any{map[string]any{"bc": nil}, 100.0}}} {
		want := len(JSON(v))
		if got := Size(v, 1000); got < want || got > want+3 {
			t.Errorf("%s: %d, want about %d", JSON(v), got, want)
		}
	}
	var v any = "x"
	for range 60 { // its text would fill any disk
		v = []any{v, v}
	}
	if got := Size(v, 1000); got <= 1000 || got > 2000 {
		t.Errorf("a shared list: %d", got)
	}
}

func TestWholeNumbers(t *testing.T) {
	in := map[string]any{"a": 1.0, "b": []any{1.5, -3.0, 1e20, "1"}, "c": true, "d": math.MaxFloat64, "e": float64(1 << 53)}
	got := WholeNumbers(in)
	want := map[string]any{"a": int64(1), "b": []any{1.5, int64(-3), 1e20, "1"}, "c": true, "d": math.MaxFloat64, "e": int64(1 << 53)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v", got, want)
	}
	if in["a"] != 1.0 {
		t.Error("the value itself was changed")
	}
}

// A document that a Reader decodes as a whole keeps its text, without the space before it.
func TestPartKeepsText(t *testing.T) {
	r := NewReader(`{"object": {"a" : 1} }`)
	if err := r.Object(func(string) error {
		d, err := r.Part(nil)
		if err != nil {
			return err
		}
		m, err := d.Map()
		if d.Text() != `{"a" : 1}` || d.Partial() || d.Whole() != d || m["a"] != int64(1) {
			t.Errorf("%q, %v", d.Text(), m)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
