package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/value"
)

func encoded(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// token returns a token. sign signs its first two parts.
func token(t *testing.T, header, claims map[string]any, sign func(signed []byte) []byte) string {
	t.Helper()
	signed := encoded([]byte(value.JSON(header))) + "." + encoded([]byte(value.JSON(claims)))
	return signed + "." + encoded(sign([]byte(signed)))
}

func sum(b []byte) []byte {
	h := sha256.Sum256(b)
	return h[:]
}

// A token is valid with the key that signed it, with an algorithm for the type of the key, and during its period of validity.
func TestTokens(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	rsaPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	point, err := ecKey.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	set := func(more map[string]any) []Key {
		keys, err := KeySet([]any{
			map[string]any{"kty": "RSA", "kid": "r", "n": encoded(rsaKey.N.Bytes()), "e": encoded(big.NewInt(int64(rsaKey.E)).Bytes())},
			map[string]any{"kty": "EC", "kid": "e", "crv": "P-256", "x": encoded(point[1:33]), "y": encoded(point[33:])},
			map[string]any{"kty": "OKP", "kid": "o", "crv": "Ed25519", "x": encoded(edPublic)},
			map[string]any{"kty": "oct", "kid": "s", "k": encoded([]byte("secret"))},
			map[string]any{"kty": "RSA", "kid": "x", "use": "enc"},
			more,
		})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	all := set(map[string]any{"kty": "other"})
	text := func(s string) []Key {
		k, err := Text(s)
		if err != nil {
			t.Fatal(err)
		}
		return []Key{k}
	}
	rs := func(b []byte) []byte {
		s, err := rsa.SignPKCS1v15(rand.Reader, rsaKey, crypto.SHA256, sum(b))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ps := func(b []byte) []byte {
		s, err := rsa.SignPSS(rand.Reader, rsaKey, crypto.SHA256, sum(b), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	es := func(b []byte) []byte {
		r, s, err := ecdsa.Sign(rand.Reader, ecKey, sum(b))
		if err != nil {
			t.Fatal(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	hs := func(key string) func([]byte) []byte {
		return func(b []byte) []byte {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write(b)
			return mac.Sum(nil)
		}
	}
	none := func([]byte) []byte { return nil }
	claims := map[string]any{"role": "admin"}
	at := func(name string, d time.Duration) map[string]any { return map[string]any{name: now.Add(d).Unix()} }
	h := func(alg string, more ...any) map[string]any {
		out := map[string]any{"alg": alg}
		for i := 0; i < len(more); i += 2 {
			out[more[i].(string)] = more[i+1]
		}
		return out
	}
	for _, c := range []struct {
		name, token string
		keys        []Key
		valid       bool
	}{
		{"a secret", token(t, h("HS256"), claims, hs("secret")), text("secret"), true},
		{"another secret", token(t, h("HS256"), claims, hs("other")), text("secret"), false},
		{"RSA", token(t, h("RS256", "kid", "r"), claims, rs), all, true},
		{"RSA in PEM", token(t, h("RS256", "kid", "any"), claims, rs), text(rsaPEM), true},
		{"RSA, probabilistic", token(t, h("PS256"), claims, ps), all, true},
		{"RSA under the name of another key", token(t, h("RS256", "kid", "e"), claims, rs), all, false},
		{"a curve", token(t, h("ES256", "kid", "e"), claims, es), all, true},
		{"Ed25519", token(t, h("EdDSA", "kid", "o"), claims, func(b []byte) []byte { return ed25519.Sign(edKey, b) }), all, true},
		{"another algorithm of the type", token(t, h("RS256"), claims, ps), all, false},
		{"no algorithm", token(t, h("none"), claims, none), all, false},
		{"no algorithm, no keys", token(t, h("none"), claims, none), nil, false},
		{"an algorithm in other letters", token(t, h("hs256"), claims, hs("secret")), text("secret"), false},
		{"a public key as the secret", token(t, h("HS256"), claims, hs(rsaPEM)), text(rsaPEM), false},
		{"a published secret", token(t, h("HS256", "kid", "s"), claims, hs("secret")), all, false},
		{"a key for another algorithm", token(t, h("RS256"), claims, rs), set(map[string]any{"kty": "other"})[1:], false},
		{"critical extensions", token(t, h("HS256", "crit", []any{"b64"}), claims, hs("secret")), text("secret"), false},
		{"not expired", token(t, h("HS256"), at("exp", time.Second), hs("secret")), text("secret"), true},
		{"expired", token(t, h("HS256"), at("exp", 0), hs("secret")), text("secret"), false},
		{"not yet", token(t, h("HS256"), at("nbf", time.Second), hs("secret")), text("secret"), false},
		{"since now", token(t, h("HS256"), at("nbf", 0), hs("secret")), text("secret"), true},
		{"a time that is a text", token(t, h("HS256"), map[string]any{"exp": "2099"}, hs("secret")), text("secret"), false},
		{"four parts", token(t, h("HS256"), claims, hs("secret")) + ".x", text("secret"), false},
		{"another part behind the signature", token(t, h("HS256"), claims, hs("secret")) + "=", text("secret"), false},
	} {
		got, err := Verify(c.token, c.keys, now)
		if (err == nil) != c.valid {
			t.Errorf("%s: %v, want valid: %v", c.name, err, c.valid)
		}
		if c.valid && got == nil {
			t.Errorf("%s: no claims", c.name)
		}
	}
}

// A key or a set of keys that cannot be parsed is an error, and never an empty set of keys.
func TestKeySet(t *testing.T) {
	for _, c := range []struct {
		keys  []any
		error string
	}{
		{make([]any, maxKeys+1), "there are 101 keys; 100 are allowed"},
		{[]any{"a"}, "keys[0]: it is not an object"},
		{[]any{map[string]any{"kty": "RSA", "e": "AQAB"}}, "keys[0]: "},
		{[]any{map[string]any{"kty": "RSA", "n": "AQAB", "e": "AQAB"}}, "an RSA key has 17 bits; 1024 to 8192 are allowed"},
		{[]any{map[string]any{"kty": "RSA", "n": encoded(append([]byte{1}, make([]byte, 299)...)), "e": "AQ"}}, "out of range"},
		{[]any{map[string]any{"kty": "EC", "crv": "P-999"}}, "P-999"},
		{[]any{map[string]any{"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}}, "keys[0]: "},
		{[]any{map[string]any{"kty": "EC", "crv": "P-256", "x": encoded(make([]byte, 32)), "y": encoded(make([]byte, 32))}}, "keys[0]:"},
		{[]any{map[string]any{"kty": "OKP", "crv": "Ed25519", "x": "AQ"}}, "keys[0]: "},
	} {
		if got, err := KeySet(c.keys); err == nil || len(got) > 0 || !strings.Contains(err.Error(), c.error) {
			t.Errorf("%v: %v, want %q", c.keys, err, c.error)
		}
	}
}
