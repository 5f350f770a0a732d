package value

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

func pod(tb testing.TB) []byte {
	tb.Helper()
	b, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

var texts = []string{
	`null`, `true`, `false`, `0`, `-0`, `1`, `-1`, `1.5`, `1e3`, `1E-7`, `9007199254740993`, `9223372036854775807`,
	`9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `1e400`, `1.0`, `100000000000000000000`, `01`, `-`, `1.`, `1e`, `.5`, `+1`,
	`""`, `"a"`, `"\n\t\r\b\f\/\\\""`, `"\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ude00\ud83d"`, `"\u12"`, `"\x"`, `"é"`, "\"\xff\"", "\"a\xc3\"", "\"\x01\"", "\"longer than eight\xff bytes\"",
	`"` + strings.Repeat("abcdefg é", 9) + `"`, `"unterminated`, `"unterminated and long \`, "\"12345678\n\"",
	`{}`, `[]`, ` { "a" : [ 1 , 2.5 , "x" ] , "b" : { } } `, `{"a":1,"a":{"b":2},"a":{"c":3}}`, `{"a":1,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a" 1}`, `{a:1}`, `{"a":}`, `{,}`, `{"a":1 "b":2}`,
	`[[[[]]]]`, `[`, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `[1`, ``, ` `, `1 2`, `nul`, `nulx`, `truE`, `tru`, `]`, `}`, "\ufeff{}", "{\"\xff\":1}", "\u00a0 1", "1\x00",
}

func TestDecodeLikeTheLibraries(t *testing.T) {
	for _, s := range texts {
		checkDecode(t, []byte(s))
	}
	checkDecode(t, pod(t))
}

func checkDecode(t *testing.T, b []byte) {
	t.Helper()
	var want any
	wantErr := json.Unmarshal(b, &want)
	got, err := DecodeJSONFloat(b)
	switch {
	case (err == nil) != (wantErr == nil):
		t.Fatalf("%q: error %v, encoding/json says %v", b, err, wantErr)
	case err == nil && !reflect.DeepEqual(got, want):
		t.Fatalf("%q: %#v, encoding/json says %#v", b, got, want)
	}
	var syntax *json.SyntaxError
	if errors.As(wantErr, &syntax) && err.Error() != wantErr.Error() && !strings.Contains(err.Error(), "out of range") {
		t.Errorf("%q: error %q, encoding/json says %q", b, err, wantErr)
	}
	var exact any
	wantErr = kjson.UnmarshalCaseSensitivePreserveInts(b, &exact)
	got, err = DecodeJSON(b)
	switch {
	case (err == nil) != (wantErr == nil):
		t.Fatalf("%q: error %v, apimachinery says %v", b, err, wantErr)
	case err == nil && !reflect.DeepEqual(got, exact):
		t.Fatalf("%q: %#v, apimachinery says %#v", b, got, exact)
	}
	r := NewReader(string(b))
	skipErr := r.Skip()
	if skipErr == nil {
		skipErr = r.End()
	}
	if err == nil && skipErr != nil {
		t.Fatalf("%q: Skip refuses what DecodeJSON takes: %v", b, skipErr)
	}
	if err != nil && skipErr == nil && !strings.Contains(err.Error(), "out of range") {
		t.Fatalf("%q: Skip takes what DecodeJSON refuses: %v", b, err)
	}
}

func TestDecodeDepth(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		closing := map[string]string{"[": "]", `{"a":`: "}"}[open]
		deep := func(n int) []byte {
			return []byte(strings.Repeat(open, n) + "1" + strings.Repeat(closing, n))
		}
		if _, err := DecodeJSON(deep(MaxDepth)); err != nil {
			t.Errorf("%d levels of %s: %v", MaxDepth, open, err)
		}
		if _, err := DecodeJSON(deep(MaxDepth + 1)); !errors.Is(err, ErrTooDeep) {
			t.Errorf("%d levels of %s: %v, want ErrTooDeep", MaxDepth+1, open, err)
		}
		if err := NewReader(string(deep(1_000_000))).Skip(); !errors.Is(err, ErrTooDeep) {
			t.Errorf("Skip of a million levels of %s: %v, want ErrTooDeep", open, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if strings.Count(string(b), "[")+strings.Count(string(b), "{") > MaxDepth {
			t.Skip("the libraries allow deeper nesting")
		}
		checkDecode(t, b)
		if v, err := DecodeJSON(b); err == nil {
			checkEncode(t, v)
		}
	})
}

func BenchmarkDecodePod(b *testing.B) {
	raw := pod(b)
	b.Run("value", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if _, err := DecodeJSON(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("part", func(b *testing.B) { // what a review of images and labels reads
		var fields Fields
		fields.Member("metadata").Member("labels").ReadAll()
		fields.Member("spec").Member("containers").Items().Member("image").ReadAll()
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if _, err := NewReader(string(raw)).AnyOf(&fields); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("skip", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if err := NewReader(string(raw)).Skip(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
