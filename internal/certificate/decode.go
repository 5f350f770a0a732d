package certificate

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"

	"ephor.invalid/ephor/internal/value"
)

// Decode reads one certificate or certificate request with an RSA key. The members have the names of the fields in Go's crypto/x509.
func Decode(s string) (any, error) {
	block, _ := pem.Decode([]byte(s))
	if block == nil {
		return nil, errors.New("failed to decode PEM block")
	}
	switch block.Type {
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		key := c.PublicKey
		c.PublicKey = nil // JSON numbers cannot represent its modulus
		return fieldsOf(c, key, c.RawSubjectPublicKeyInfo)
	case "CERTIFICATE REQUEST":
		c, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return nil, err
		}
		key := c.PublicKey
		c.PublicKey = nil
		return fieldsOf(c, key, c.RawSubjectPublicKeyInfo)
	}
	return nil, errors.New("PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST")
}

// fieldsOf converts the parsed certificate through its JSON form. The modulus of the key becomes decimal text, since a float64 cannot
// represent it.
func fieldsOf(c, key any, keyInfo []byte) (any, error) {
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		if _, err := x509.ParsePKIXPublicKey(keyInfo); err != nil {
			return nil, errors.New("failed to parse subject public key info")
		}
		return nil, errors.New("certificate should use rsa algorithm")
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	v, err := value.DecodeJSONFloat(raw)
	if err != nil {
		return nil, err
	}
	v.(map[string]any)["PublicKey"] = map[string]any{"N": public.N.String(), "E": float64(public.E)}
	return v, nil
}
