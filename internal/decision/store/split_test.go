package store

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// The error of a duration in one byte is at most 4 %.
func TestBrief(t *testing.T) {
	for d := time.Microsecond; d < 2*time.Minute; d += d/7 + 1 {
		if got := long(brief(d)); got < d*96/100 || got > d*104/100 {
			t.Errorf("%v became %v", d, got)
		}
	}
	if long(brief(0)) != 0 || brief(time.Hour) != 255 || brief(-time.Second) != 0 {
		t.Error("the ends of the range are wrong")
	}
}

// Messages with any text are unchanged after the names in them were replaced and inserted again.
func TestWords(t *testing.T) {
	pieces := []string{"shop", "shop-web", "web", "we", "a", "\x01", "\x02", "\x03", "1", "2", "3", " ", "é", "*"}
	text := func() string {
		var b strings.Builder
		for range rand.IntN(12) {
			b.WriteString(pieces[rand.IntN(len(pieces))])
		}
		return b.String()
	}
	for range 20_000 {
		r := &decision.Record{Name: text(), Namespace: text()}
		w := newWords(r)
		if want := text(); w.fill(w.cut(want)) != want {
			t.Fatalf("%q became %q with the name %q in %q", want, w.fill(w.cut(want)), r.Name, r.Namespace)
		}
	}
	one, other := newWords(&decision.Record{Name: "web-1", Namespace: "shop"}), newWords(&decision.Record{Name: "web-2", Namespace: "store"})
	if a, b := one.cut("resource Pod/shop/web-1 was blocked"), other.cut("resource Pod/store/web-2 was blocked"); a != b {
		t.Errorf("%q and %q differ", a, b)
	}
}

// Each field of a record is in one of its parts. The rest is empty, since it would be stored with each record.
func TestSplit(t *testing.T) {
	r := &decision.Record{}
	fill(reflect.ValueOf(r).Elem(), 1)
	p := split(r)
	rest, err := p.rest.AppendProto(nil)
	if err != nil {
		t.Fatal(err)
	}
	for v, i := reflect.ValueOf(p.rest), 0; i < v.NumField(); i++ {
		if !v.Field(i).IsZero() {
			t.Logf("the field %s is stored with each record", v.Type().Field(i).Name)
		}
	}
	if len(rest) > 0 {
		t.Errorf("%d bytes are stored with each record beside the parts", len(rest))
	}
}

// fill sets all fields of a record.
func fill(v reflect.Value, n int) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n+i)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("%032x", n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.Float64:
		v.SetFloat(0.5)
	case v.Kind() == reflect.Int64:
		v.SetInt(int64(n))
	}
}
