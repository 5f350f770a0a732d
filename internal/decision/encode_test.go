package decision

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The texts of random records: empty, plain, and with characters that JSON has to escape.
var someTexts = []string{
	"", "", "plain", "a longer text of letters and spaces, without anything to escape", `"quoted" and \`, "\x00\b\f\n\r\t\x1f\x7f", "<&>", "ünïcode 漢字 🙂",
	"\u2028\u2029", "bad \xff utf-8 \xed\xa0\x80", "eight by\"tes", strings.Repeat("x", 300),
}

// fill sets each field of v, and of values that it refers to, to a random value; some stay empty.
func fill(v reflect.Value, random *rand.Rand) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(someTexts[random.IntN(len(someTexts))])
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, 0.01, 1e-7, 1e21, -0.5, 123456789.125, math.Copysign(0, -1)}[random.IntN(8)])
	case reflect.Int64:
		v.SetInt([]int64{0, 1, -1, math.MaxInt64, random.Int64()}[random.IntN(5)])
	case reflect.Uint8:
		v.SetUint(random.Uint64() & 255)
	case reflect.Pointer:
		if random.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), random)
		}
	case reflect.Slice:
		if random.IntN(3) == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(4), 4))
		for i := range v.Len() {
			fill(v.Index(i), random)
		}
	case reflect.Map:
		if random.IntN(3) == 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range random.IntN(4) {
			key, one := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, random)
			fill(one, random)
			v.SetMapIndex(key, one)
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Unix(random.Int64N(4e9), []int64{0, 5e8, random.Int64N(1e9)}[random.IntN(3)]).In([]*time.Location{time.UTC, time.FixedZone("x", 5400)}[random.IntN(2)])
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), random)
		}
	default:
		panic(v.Kind()) // a field of a new kind
	}
}

// A record is encoded as encoding/json encodes it.
func TestAppendJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		var r Record
		if i == 0 {
			r = full()
		} else {
			fill(reflect.ValueOf(&r).Elem(), random)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(&r); err != nil {
			t.Fatal(err)
		}
		got, err := r.AppendJSON([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		if text, after := string(got)+"\n", "before"+want.String(); text != after {
			t.Fatalf("record %d:\ngot  %s\nwant %s", i, text, after)
		}
	}
	for name, r := range map[string]Record{"a share that is no number": {Share: math.NaN()}, "an infinite share": {Share: math.Inf(1)}, "a time without a form": {Time: time.Unix(1e12, 0)}} {
		if b, err := r.AppendJSON(nil); err == nil {
			t.Errorf("%s: %s", name, b)
		}
	}
}
