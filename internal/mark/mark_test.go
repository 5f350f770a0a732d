package mark

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/seal"
)

func ring(t testing.TB, keys ...byte) *seal.Keyring {
	t.Helper()
	var all []seal.Key
	for _, b := range keys {
		k, err := seal.NewKey(bytes.Repeat([]byte{b}, seal.KeySize))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	r, err := seal.NewKeyring(all[0], all[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	claim = Claim{Policy: "p", Rule: "r", Trigger: Object{APIVersion: "v1", Kind: "Namespace", Name: "team", UID: "u1"}, Source: "s1", Asked: true}
	made  = Object{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "team", Name: "deny"}
)

// T2: a mark proves its claim only for the object for which it was made.
func TestT2Read(t *testing.T) {
	r := ring(t, 1)
	good := Make(r, claim, made)
	object := func(change func(*Object)) Object {
		o := made
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		ring *seal.Keyring
		text string
		of   Object
		want error
	}{
		"its own":               {r, good, made, nil},
		"with a UID":            {r, good, object(func(o *Object) { o.UID = "any" }), nil},
		"another version":       {r, good, object(func(o *Object) { o.APIVersion = "networking.k8s.io/v2" }), nil},
		"an older key":          {ring(t, 2, 1), good, made, nil},
		"a lost key":            {ring(t, 2), good, made, seal.ErrUnknownKey},
		"another name":          {r, good, object(func(o *Object) { o.Name = "other" }), seal.ErrForged},
		"another namespace":     {r, good, object(func(o *Object) { o.Namespace = "other" }), seal.ErrForged},
		"another kind":          {r, good, object(func(o *Object) { o.Kind = "Ingress" }), seal.ErrForged},
		"another group":         {r, good, object(func(o *Object) { o.APIVersion = "v1" }), seal.ErrForged},
		"no mark":               {r, "", made, ErrNone},
		"no JSON":               {r, "generated", made, ErrMalformed},
		"unknown fields":        {r, `{"more":1,` + good[1:], made, ErrMalformed},
		"followed by something": {r, good + "{}", made, ErrMalformed},
		"too long":              {r, good + strings.Repeat(" ", maxText), made, ErrMalformed},
		"without a seal":        {r, `{"policy":"p","rule":"r","trigger":{"apiVersion":"v1","kind":"Namespace"}}`, made, seal.ErrMalformed},
		"another policy":        {r, strings.Replace(good, `"p"`, `"q"`, 1), made, seal.ErrForged},
		"another rule":          {r, strings.Replace(good, `"r"`, `"q"`, 1), made, seal.ErrForged},
		"of a kind":             {r, `{"kind":"k",` + good[1:], made, seal.ErrForged},
		"another trigger":       {r, strings.Replace(good, `"u1"`, `"u2"`, 1), made, seal.ErrForged},
		"another trigger name":  {r, strings.Replace(good, `"team"`, `"other"`, 1), made, seal.ErrForged},
		"another source":        {r, strings.Replace(good, `"s1"`, `"s2"`, 1), made, seal.ErrForged},
		"not asked":             {r, strings.Replace(good, `"asked":true`, `"asked":false`, 1), made, seal.ErrForged},
	} {
		got, err := Read(c.ring, c.text, c.of)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if want := (map[bool]Claim{true: claim})[c.want == nil]; got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	ofKind := claim
	ofKind.Kind = "k"
	for text, want := range map[string]error{
		Make(r, ofKind, made): nil, strings.Replace(Make(r, ofKind, made), `"kind":"k",`, "", 1): seal.ErrForged,
		strings.Replace(Make(r, ofKind, made), `"kind":"k"`, `"kind":"other"`, 1): seal.ErrForged,
	} {
		if _, err := Read(r, text, made); !errors.Is(err, want) {
			t.Errorf("the mark %s of a policy of a kind: %v, want %v", text, err, want)
		}
	}
	if !IsCurrent(r, good) || IsCurrent(ring(t, 2, 1), good) || IsCurrent(r, "") {
		t.Error("IsCurrent does not tell the marks of the current key from others")
	}
	if Make(r, claim, made) != good {
		t.Error("the same mark is not the same text: objects would be written again and again")
	}
}

// FuzzRead checks that only marks of Make are accepted, however their JSON is formatted.
func FuzzRead(f *testing.F) {
	r := ring(f, 1)
	f.Add(Make(r, claim, made), "team", "deny")
	f.Add(Make(ring(f, 2), claim, made), "team", "deny")
	f.Add("{}", "", "")
	f.Fuzz(func(t *testing.T, text, namespace, name string) {
		of := Object{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: namespace, Name: name}
		got, err := Read(r, text, of)
		if err != nil {
			if got != (Claim{}) {
				t.Errorf("%q: %v with the claim %+v", text, err, got)
			}
			return
		}
		if got != claim || of != made {
			t.Errorf("%q proves %+v of %+v, which was never sealed", text, got, of)
		}
	})
}
