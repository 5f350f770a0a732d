package jmespath

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"

	"github.com/ephor-dev/ephor/internal/value"
)

// maxCertificate bounds what is handed to the certificate parser.
const maxCertificate = 64 << 10

func init() {
	register(Function{
		Name: "x509_decode", Args: one(String), Returns: []Type{Object},
		Doc: "The fields of a PEM certificate or certificate request with an RSA key, under the names of Go's crypto/x509: Subject.CommonName, Issuer, DNSNames, NotBefore, NotAfter, SerialNumber, PublicKey.N, PublicKey.E and so on.",
		Examples: []Example{
			{Expression: "x509_decode(@).[Subject.CommonName, PublicKey.E, NotAfter]", Input: exampleCertificate, Result: `["ephor.example", 65537, "2036-11-17T00:00:00Z"]`},
			{Expression: "x509_decode('x')", Error: `failed to decode PEM block`},
		},
		call: func(env *Env, args []any) (any, error) {
			s := args[0].(string)
			if len(s) > maxCertificate {
				return nil, functionError("x509_decode", "%w: %d bytes", ErrTooLarge, len(s))
			}
			if err := env.bytes(16 * len(s)); err != nil {
				return nil, err
			}
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
				c.PublicKey = nil // its modulus is no number of JSON
				return certificateFields(c, key, c.RawSubjectPublicKeyInfo)
			case "CERTIFICATE REQUEST":
				c, err := x509.ParseCertificateRequest(block.Bytes)
				if err != nil {
					return nil, err
				}
				key := c.PublicKey
				c.PublicKey = nil
				return certificateFields(c, key, c.RawSubjectPublicKeyInfo)
			}
			return nil, errors.New("PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST")
		},
	})
}

// certificateFields makes a value of the parsed certificate by way of its JSON form. The modulus of the key is written as
// decimal text: no float64 holds it.
func certificateFields(c, key any, keyInfo []byte) (any, error) {
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
