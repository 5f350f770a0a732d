package jwt

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"ephor.invalid/ephor/internal/value"
)

// Limits for the values that are passed to the functions of package crypto.
const (
	maxKeys    = 100
	minRSABits = 1024
	maxRSABits = 8192
)

// Key is a secret ([]byte) or a public key.
type Key struct {
	ID        string
	algorithm string // if not empty, the key may be used only with it
	key       any
}

// Text parses a public key or a certificate in PEM. Any other text is a secret. A public key is never used as a secret, so that
// a token cannot choose how its key is used.
func Text(text string) (Key, error) {
	if text == "" {
		return Key{}, errors.New("the key is empty")
	}
	if !strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN ") {
		return Key{key: []byte(text)}, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return Key{}, errors.New("failed to decode the PEM block of the key")
	}
	if block.Type == "CERTIFICATE" {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return Key{}, fmt.Errorf("parse the certificate: %w", err)
		}
		return public(c.PublicKey)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("parse the public key: %w", err)
	}
	return public(key)
}

// public accepts the types of public keys for which algorithms exist.
func public(key any) (Key, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSABits || n > maxRSABits {
			return Key{}, fmt.Errorf("an RSA key has %d bits; %d to %d are allowed", n, minRSABits, maxRSABits)
		}
		if k.E < 3 || k.E > 1<<31-1 {
			return Key{}, errors.New("the exponent of an RSA key is out of range")
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return Key{}, fmt.Errorf("keys of type %T are not supported", key)
	}
	return Key{key: key}, nil
}

// KeySet parses a JSON Web Key Set (RFC 7517). It leaves out keys of unknown types, and keys that are not for signatures of tokens.
func KeySet(list []any) (out []Key, err error) {
	if len(list) > maxKeys {
		return nil, fmt.Errorf("there are %d keys; %d are allowed", len(list), maxKeys)
	}
	for i, v := range list {
		key, usable, err := webKey(v)
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		if usable {
			out = append(out, key)
		}
	}
	return out, nil
}

// webKey parses a JSON Web Key.
func webKey(v any) (_ Key, usable bool, err error) {
	given, ok := v.(map[string]any)
	if !ok {
		return Key{}, false, errors.New("it is not an object")
	}
	if use, _ := given["use"].(string); use != "" && use != "sig" {
		return Key{}, false, nil
	}
	if kind := given["kty"]; kind != "RSA" && kind != "EC" && kind != "OKP" { // secrets must not be published, so they are not accepted
		return Key{}, false, nil
	}
	known := map[string]any{} // without certificates and private parts
	for _, name := range []string{"kty", "kid", "alg", "crv", "n", "e", "x", "y"} {
		if s, is := given[name].(string); is {
			if len(name) == 1 {
				s = strings.TrimRight(s, "=")
			}
			known[name] = s
		}
	}
	if x, _ := known["x"].(string); given["crv"] == "Ed25519" && base64.RawURLEncoding.DecodedLen(len(x)) != ed25519.PublicKeySize {
		return Key{}, false, fmt.Errorf("x has not %d bytes", ed25519.PublicKeySize) // go-jose fills it with zeros
	}
	var parsed jose.JSONWebKey
	switch err := parsed.UnmarshalJSON([]byte(value.JSON(known))); {
	case errors.Is(err, jose.ErrUnsupportedKeyType):
		return Key{}, false, nil
	case err != nil:
		return Key{}, false, err
	}
	out, err := public(parsed.Key)
	out.ID, out.algorithm = parsed.KeyID, parsed.Algorithm
	return out, err == nil, err
}

// algorithms are the algorithms of public keys that are accepted.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// hashes are the hashes of the algorithms of secrets. go-jose refuses the short secrets that policies may have, so they are verified here.
var hashes = map[string]func() hash.Hash{string(jose.HS256): sha256.New, string(jose.HS384): sha512.New384, string(jose.HS512): sha512.New}

// signedWith reports whether a secret signed a text.
func signedWith(secret []byte, of func() hash.Hash, text string, signature []byte) bool {
	mac := hmac.New(of, secret)
	mac.Write([]byte(text))
	return hmac.Equal(mac.Sum(nil), signature)
}

// curves are the sizes of the curves of algorithms, in bits.
var curves = map[string]int{string(jose.ES256): 256, string(jose.ES384): 384, string(jose.ES512): 521}

// serves reports whether the key may verify a signature of an algorithm by a key of that ID.
func (k *Key) serves(id, algorithm string) bool {
	if id != "" && k.ID != "" && id != k.ID || k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	curve, is := k.key.(*ecdsa.PublicKey)
	return !is || curve.Params().BitSize == curves[algorithm]
}

// Verify returns the claims of a token as far as it can be parsed. It returns an error if the token is not valid: a token is
// valid if one of the keys signed it, and the current time is within its period of validity.
func Verify(token string, keys []Key, now time.Time) (map[string]any, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("a token has three parts")
	}
	header, err := segment(parts[0])
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	claims, err := segment(parts[1])
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return claims, fmt.Errorf("signature: %w", err)
	}
	for _, name := range []string{"crit", "b64"} {
		if _, has := header[name]; has {
			return claims, errors.New("the header has critical extensions")
		}
	}
	algorithm, _ := header["alg"].(string)
	var signed *jose.JSONWebSignature
	of := hashes[algorithm]
	switch {
	case slices.Contains(algorithms, jose.SignatureAlgorithm(algorithm)):
		if signed, err = jose.ParseSignedCompact(token, algorithms); err != nil {
			return claims, err
		}
	case of == nil:
		return claims, fmt.Errorf("unknown algorithm %q", algorithm)
	}
	id, _ := header["kid"].(string)
	for _, k := range keys {
		if !k.serves(id, algorithm) {
			continue
		}
		secret, isSecret := k.key.([]byte)
		valid := isSecret && of != nil && signedWith(secret, of, parts[0]+"."+parts[1], signature)
		if signed != nil && !isSecret {
			_, err := signed.Verify(k.key)
			valid = err == nil
		}
		if valid {
			return claims, timely(claims, now)
		}
	}
	return claims, errors.New("no key matches the signature")
}

// segment decodes a part of a token.
func segment(part string) (map[string]any, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, err
	}
	v, err := value.DecodeJSONFloat(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return m, nil
}

// timely checks that the current time is within the token's period of validity. A time that is not a number makes the token invalid.
func timely(claims map[string]any, now time.Time) error {
	seconds := float64(now.UnixNano()) / 1e9
	for name, early := range map[string]bool{"exp": false, "nbf": true, "iat": true} {
		v, there := claims[name]
		if !there {
			continue
		}
		at, ok := v.(float64)
		switch {
		case !ok:
			return fmt.Errorf("%s is not a number", name)
		case early && seconds < at, !early && seconds >= at:
			return fmt.Errorf("the token is not valid now (%s)", name)
		}
	}
	return nil
}
