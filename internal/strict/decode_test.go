package strict_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/strict"
)

type raw struct{ Raw []byte }

func (r *raw) UnmarshalJSON(b []byte) error { r.Raw = append([]byte(nil), b...); return nil }

type embedded struct {
	Kind string `json:"kind,omitempty"`
}

type inner struct {
	Name  string            `json:"name"`
	Free  *raw              `json:"free,omitempty"`
	Kept  *raw              `json:"kept,omitempty" null:"value"`
	Label map[string]string `json:"label,omitempty"`
}

type object struct {
	embedded `json:",inline"`
	Meta     metav1.ObjectMeta `json:"metadata,omitempty"`
	Count    *int32            `json:"count,omitempty"`
	On       *bool             `json:"on,omitempty"`
	Inners   []inner           `json:"inners,omitempty"`
}

func decode(t *testing.T, src string) (object, []string) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(src), &m); err != nil {
		t.Fatal(err)
	}
	var o object
	var got []string
	for _, d := range strict.Decode(m, &o) {
		got = append(got, d.String())
	}
	return o, got
}

func TestDecodeFillsEverything(t *testing.T) {
	o, diags := decode(t, `{"metadata":{"name":"n","labels":{"a.b/c":"d"},"creationTimestamp":"2026-01-02T03:04:05Z"},
		"count":3,"on":false,"inners":[{"name":"x","free":{"a":[1,null]}},{"name":"y","label":{"k":"v"}}]}`)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	if o.Meta.Name != "n" || o.Meta.Labels["a.b/c"] != "d" || o.Meta.CreationTimestamp.Year() != 2026 {
		t.Errorf("metadata: %+v", o.Meta)
	}
	if o.Count == nil || *o.Count != 3 || o.On == nil || *o.On {
		t.Errorf("pointers: %+v", o)
	}
	if len(o.Inners) != 2 || string(o.Inners[0].Free.Raw) != `{"a":[1,null]}` || o.Inners[1].Label["k"] != "v" {
		t.Errorf("inners: %+v", o.Inners)
	}
}

func TestDecodeReportsAllMistakes(t *testing.T) {
	o, got := decode(t, `{"kind":"K","metadata":{"labels":{"a.b/c":true}},"count":"3","on":"yes","zzzzzzzz":1,
		"inners":[{"Name":"x","lable":{}},{"name":"kept","label":["v"]},"text"]}`)
	want := []string{
		`count: expected a whole number, found the text "3" (remove the quotes)`,
		`inners[0].Name: unknown field "Name" (did you mean "name"?)`,
		`inners[0].lable: unknown field "lable" (did you mean "label"?)`,
		`inners[1].label: expected an object, found a list`,
		`inners[2]: expected an object, found the text "text"`,
		`metadata.labels.a.b/c: expected a string, found the boolean true (put the value in quotes)`,
		`on: expected true or false, found the text "yes" (remove the quotes)`,
		`zzzzzzzz: unknown field "zzzzzzzz" (known fields are count, inners, kind, metadata, on)`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(o.Inners) != 3 || o.Inners[1].Name != "kept" || o.Kind != "K" {
		t.Errorf("what fits must be decoded: %+v", o)
	}
}

func TestNumbersOfBothDecodings(t *testing.T) {
	for _, v := range []any{int64(7), float64(7)} {
		var o object
		if d := strict.Decode(map[string]any{"count": v}, &o); len(d) > 0 || *o.Count != 7 {
			t.Errorf("%T: %v %v", v, d, o.Count)
		}
	}
	var o object
	for _, v := range []any{7.5, float64(1 << 40), int64(1 << 40)} {
		if d := strict.Decode(map[string]any{"count": v}, &o); len(d) != 1 {
			t.Errorf("%v: %v", v, d)
		}
	}
}

func TestNullLeavesTheFieldAlone(t *testing.T) {
	o, got := decode(t, `{"count":null,"inners":null,"metadata":null,"on":null,"kind":null}`)
	if len(got) > 0 || o.Count != nil || o.On != nil || o.Inners != nil {
		t.Errorf("%v %+v", got, o)
	}
}

func TestNullThatIsAValue(t *testing.T) {
	o, got := decode(t, `{"inners":[{"kept":null,"free":null},{}]}`)
	if len(got) > 0 || o.Inners[0].Kept == nil || o.Inners[0].Free != nil || o.Inners[1].Kept != nil {
		t.Errorf("%v %+v", got, o)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"metadata":{"name":"n"},"inners":[{"name":1}]}`)
	f.Fuzz(func(t *testing.T, src string) {
		var m map[string]any
		if json.Unmarshal([]byte(src), &m) != nil {
			return
		}
		var o object
		diags := strict.Decode(m, &o)
		for _, d := range diags {
			if d.Summary == "" {
				t.Errorf("empty summary at %q", d.Path)
			}
		}
	})
}
