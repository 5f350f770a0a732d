package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func key(t testing.TB, b byte) Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{b}, KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ring(t testing.TB, current byte, older ...byte) *Keyring {
	t.Helper()
	var rest []Key
	for _, b := range older {
		rest = append(rest, key(t, b))
	}
	r, err := NewKeyring(key(t, current), rest...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheck(t *testing.T) {
	r := ring(t, 1)
	good := r.Seal("d", "ab", "c")
	for name, c := range map[string]struct {
		ring   *Keyring
		text   string
		domain string
		parts  []string
		want   error
	}{
		"its own":         {r, good, "d", []string{"ab", "c"}, nil},
		"an older key":    {ring(t, 2, 1), good, "d", []string{"ab", "c"}, nil},
		"a lost key":      {ring(t, 2), good, "d", []string{"ab", "c"}, ErrUnknownKey},
		"another domain":  {r, good, "e", []string{"ab", "c"}, ErrForged},
		"parts shifted":   {r, good, "d", []string{"a", "bc"}, ErrForged},
		"a part missing":  {r, good, "d", []string{"ab"}, ErrForged},
		"a part added":    {r, good, "d", []string{"ab", "c", ""}, ErrForged},
		"a domain joined": {r, good, "dab", []string{"c"}, ErrForged},
		"empty":           {r, "", "d", []string{"ab", "c"}, ErrMalformed},
		"upper case":      {r, strings.ToUpper(good), "d", []string{"ab", "c"}, ErrMalformed},
		"another version": {r, "v2" + good[2:], "d", []string{"ab", "c"}, ErrMalformed},
		"cut":             {r, good[:len(good)-2], "d", []string{"ab", "c"}, ErrMalformed},
		"a changed digit": {r, good[:len(good)-1] + string("0123456789abcdef0"[strings.IndexByte("0123456789abcdef", good[len(good)-1])+1]), "d", []string{"ab", "c"}, ErrForged},
	} {
		if err := c.ring.Check(c.text, c.domain, c.parts...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if !r.IsCurrent(good) || ring(t, 2, 1).IsCurrent(good) {
		t.Error("IsCurrent does not tell the current key from an older one")
	}
}

// A key must not appear in any form in which values reach logs and dumps.
func TestKeysAreNotPrinted(t *testing.T) {
	k := key(t, 'K')
	secret := strings.Repeat("K", 4)
	digits := fmt.Sprintf("%x", secret)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", k, "pointer", &k, "ring", ring(t, 'K'))
	asJSON, err := json.Marshal(map[string]any{"key": k, "ring": ring(t, 'K')})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s %q %x", k, k, k, k, k, k), fmt.Sprintf("%+v", ring(t, 'K')), log.String(), string(asJSON),
	} {
		for _, bad := range []string{secret, digits, "75 75 75 75", "S0tL"} {
			if strings.Contains(text, bad) {
				t.Errorf("the key is printed: %s", text)
			}
		}
	}
}

func TestKeySize(t *testing.T) {
	if _, err := NewKey(make([]byte, KeySize-1)); err == nil {
		t.Error("a short key is accepted")
	}
	if _, err := NewKeyring(Key{}); err == nil {
		t.Error("the zero key is accepted")
	}
}

func FuzzCheck(f *testing.F) {
	r := ring(f, 1, 2)
	f.Add(r.Seal("d", "a", "b"), "a", "b")
	f.Add("v1..", "", "")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		err := r.Check(text, "d", a, b)
		made := text == r.Seal("d", a, b) || text == ring(t, 2).Seal("d", a, b)
		if (err == nil) != made {
			t.Errorf("Check(%q) = %v, made by us: %v", text, err, made)
		}
	})
}

func TestSummer(t *testing.T) {
	k := key(t, 3)
	s := k.Summer()
	for range 2 {
		for _, parts := range [][]string{nil, {""}, {"a", "bc"}, {"ab", "c"}, {strings.Repeat("long", 5_000)}, {strings.Repeat("x", maxKept-25), "y", "", "z"}, {strings.Repeat("x", maxKept-17), "", "z"}} {
			if s.Sum("d", parts...) != k.Sum("d", parts...) {
				t.Errorf("%.20q: a Summer and its key differ", parts)
			}
		}
	}
	for n := range 3 * maxKept {
		if text := strings.Repeat("x", n); s.Sum("d", text, "y") != k.Sum("d", text, "y") {
			t.Fatalf("a part of %d bytes: a Summer and its key differ", n)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(text, "3, 3") || strings.Contains(text, "0x3, 0x3") {
		t.Errorf("the key is printed: %s", text)
	}
}
