package celenv

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of the algorithms
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/value"
)

// Limits for the values that are passed to the functions of package crypto.
const (
	maxKeys    = 100
	minRSABits = 1024
	maxRSABits = 8192
)

// verificationKey is a secret ([]byte) or a public key. If algorithm is not empty, the key may be used only with that algorithm.
type verificationKey struct {
	id, algorithm string
	key           any
}

// keyOf parses a public key or a certificate in PEM. Any other text is a secret. A public key is never used as a secret, so that
// a token cannot choose how its key is used.
func keyOf(text string) (verificationKey, error) {
	if text == "" {
		return verificationKey{}, errors.New("the key is empty")
	}
	if !strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN ") {
		return verificationKey{key: []byte(text)}, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return verificationKey{}, errors.New("failed to decode the PEM block of the key")
	}
	if block.Type == "CERTIFICATE" {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return verificationKey{}, fmt.Errorf("parse the certificate: %w", err)
		}
		return public(c.PublicKey)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return verificationKey{}, fmt.Errorf("parse the public key: %w", err)
	}
	return public(key)
}

// public accepts the types of public keys for which algorithms exist.
func public(key any) (verificationKey, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSABits || n > maxRSABits {
			return verificationKey{}, fmt.Errorf("an RSA key has %d bits; %d to %d are allowed", n, minRSABits, maxRSABits)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return verificationKey{}, fmt.Errorf("keys of type %T are not supported", key)
	}
	return verificationKey{key: key}, nil
}

// webKey parses a JSON Web Key. usable is false for keys of unknown types, and for keys that are not for signatures of tokens.
func webKey(v any) (_ verificationKey, usable bool, err error) {
	k, ok := v.(map[string]any)
	if !ok {
		return verificationKey{}, false, errors.New("it is not an object")
	}
	if use, _ := k["use"].(string); use != "" && use != "sig" {
		return verificationKey{}, false, nil
	}
	var out verificationKey
	switch k["kty"] {
	case "RSA":
		n, errN := number(k, "n")
		e, errE := number(k, "e")
		if err := errors.Join(errN, errE); err != nil {
			return out, false, err
		}
		if !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return out, false, errors.New("e is out of range")
		}
		out, err = public(&rsa.PublicKey{N: n, E: int(e.Int64())})
	case "EC":
		out, err = curvePoint(k)
	case "OKP":
		if k["crv"] != "Ed25519" {
			return out, false, nil
		}
		x, problem := octets(k, "x")
		if problem != nil || len(x) != ed25519.PublicKeySize {
			return out, false, errors.New("x is not an Ed25519 key")
		}
		out, err = public(ed25519.PublicKey(x))
	default: // secrets must not be published, so they are not accepted
		return out, false, nil
	}
	out.id, _ = k["kid"].(string)
	out.algorithm, _ = k["alg"].(string)
	return out, err == nil, err
}

// curves returns curves by name. They are functions because the standard library computes the parameters of curves on first use.
var curves = map[string]func() elliptic.Curve{"P-256": elliptic.P256, "P-384": elliptic.P384, "P-521": elliptic.P521}

func curvePoint(k map[string]any) (verificationKey, error) {
	name, _ := k["crv"].(string)
	made := curves[name]
	if made == nil {
		return verificationKey{}, fmt.Errorf("unknown curve %q", name)
	}
	curve := made()
	x, errX := octets(k, "x")
	y, errY := octets(k, "y")
	size := (curve.Params().BitSize + 7) / 8
	if errX != nil || errY != nil || len(x) != size || len(y) != size {
		return verificationKey{}, fmt.Errorf("x and y must be %d bytes in base64url", size)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
	if err != nil {
		return verificationKey{}, err
	}
	return public(key)
}

func octets(k map[string]any, name string) ([]byte, error) {
	s, _ := k[name].(string)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil || len(raw) == 0 || len(raw) > maxRSABits/8+1 {
		return nil, fmt.Errorf("%s is not a number in base64url", name)
	}
	return raw, nil
}

func number(k map[string]any, name string) (*big.Int, error) {
	raw, err := octets(k, name)
	if err != nil {
		return nil, err
	}
	return new(big.Int).SetBytes(raw), nil
}

// algorithms maps the names of signature algorithms to functions that verify a signature. A key can be used with an algorithm only if it
// has the required type.
var algorithms = map[string]func(key any, signed, signature []byte) bool{
	"HS256": secret(crypto.SHA256), "HS384": secret(crypto.SHA384), "HS512": secret(crypto.SHA512),
	"RS256": pkcs1(crypto.SHA256), "RS384": pkcs1(crypto.SHA384), "RS512": pkcs1(crypto.SHA512),
	"PS256": pss(crypto.SHA256), "PS384": pss(crypto.SHA384), "PS512": pss(crypto.SHA512),
	"ES256": curve(crypto.SHA256, "P-256"), "ES384": curve(crypto.SHA384, "P-384"), "ES512": curve(crypto.SHA512, "P-521"),
	"EdDSA": func(key any, signed, signature []byte) bool {
		k, ok := key.(ed25519.PublicKey)
		return ok && ed25519.Verify(k, signed, signature)
	},
}

func hashOf(h crypto.Hash, of []byte) []byte {
	w := h.New()
	w.Write(of)
	return w.Sum(nil)
}

func secret(h crypto.Hash) func(any, []byte, []byte) bool {
	return func(key any, signed, signature []byte) bool {
		k, ok := key.([]byte)
		if !ok {
			return false
		}
		mac := hmac.New(h.New, k)
		mac.Write(signed)
		return hmac.Equal(mac.Sum(nil), signature)
	}
}

func pkcs1(h crypto.Hash) func(any, []byte, []byte) bool {
	return func(key any, signed, signature []byte) bool {
		k, ok := key.(*rsa.PublicKey)
		return ok && rsa.VerifyPKCS1v15(k, h, hashOf(h, signed), signature) == nil
	}
}

func pss(h crypto.Hash) func(any, []byte, []byte) bool {
	return func(key any, signed, signature []byte) bool {
		k, ok := key.(*rsa.PublicKey)
		return ok && rsa.VerifyPSS(k, h, hashOf(h, signed), signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
}

func curve(h crypto.Hash, name string) func(any, []byte, []byte) bool {
	return func(key any, signed, signature []byte) bool {
		k, ok := key.(*ecdsa.PublicKey)
		curve := curves[name]()
		size := (curve.Params().BitSize + 7) / 8
		if !ok || k.Curve != curve || len(signature) != 2*size {
			return false
		}
		return ecdsa.Verify(k, hashOf(h, signed), new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
	}
}

// verified returns the claims of a token as far as it can be parsed. It returns an error if the token is not valid: a token is
// valid if one of the keys signed it, and the current time is within its period of validity.
func verified(token string, keys []verificationKey, now time.Time) (map[string]any, error) {
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
	if _, critical := header["crit"]; critical {
		return claims, errors.New("the header has critical extensions")
	}
	algorithm, _ := header["alg"].(string)
	verify := algorithms[algorithm]
	if verify == nil {
		return claims, fmt.Errorf("unknown algorithm %q", algorithm)
	}
	id, _ := header["kid"].(string)
	signed := []byte(token[:len(parts[0])+1+len(parts[1])])
	for _, k := range keys {
		if id != "" && k.id != "" && id != k.id || k.algorithm != "" && k.algorithm != algorithm {
			continue
		}
		if verify(k.key, signed, signature) {
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
