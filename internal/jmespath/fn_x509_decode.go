package jmespath

import "ephor.invalid/ephor/internal/certificate"

// maxCertificate bounds the input of the certificate parser.
const maxCertificate = 64 << 10

func init() {
	register(Function{
		Name: "x509_decode", Args: one(String), Returns: []Type{Object},
		Doc: "Decodes a PEM certificate or certificate request with an RSA key. The fields have the names of Go's crypto/x509: Subject.CommonName, Issuer, DNSNames, NotBefore, NotAfter, SerialNumber, PublicKey.N, PublicKey.E and so on.",
		Examples: []Example{
			{Expression: "x509_decode(@).[Subject.CommonName, PublicKey.E, NotAfter]", Input: exampleCertificate, Result: `["ephor.example", 65537, "2036-11-17T00:00:00Z"]`},
			{Expression: "x509_decode('x')", Error: `failed to decode PEM block`},
		},
		call: func(env *Env, args []any) (any, error) {
			s := args[0].(string)
			if len(s) > maxCertificate {
				return nil, functionError("x509_decode", "%w: %d bytes", ErrTooLarge, len(s))
			}
			if err := env.step(5_000 + 16*len(s)); err != nil {
				return nil, err
			}
			if err := env.bytes(16 * len(s)); err != nil {
				return nil, err
			}
			return certificate.Decode(s)
		},
	})
}
