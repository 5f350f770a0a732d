package env

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/certificate"
)

// maxCertificate is the maximum size of a text that is passed to the certificate parser, in bytes.
const maxCertificate = 64 << 10

// hiddenFields are the fields of a certificate that are not shown, because Kyverno does not have them here.
var hiddenFields = []string{"Subject", "URIs", "Version", "SubjectKeyId", "SignatureAlgorithm"}

var libX509 = &Library{
	Name:  "x509",
	Doc:   "Certificates with RSA keys.",
	Kinds: withX509,
	Functions: []Function{{
		Names:     []string{"x509.decode"},
		Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: objectArg}},
		Doc:       "Decodes a PEM certificate or certificate request. The fields have the names of Go's crypto/x509: Issuer, DNSNames, NotBefore, NotAfter, SerialNumber, PublicKey.N and so on.",
		Example:   "x509.decode(object.data['tls.crt']).NotAfter",
		Result:    `"2036-11-17T00:00:00Z"`,
		cost:      func(args []ref.Val) int { return price.NodeSteps*1000 + price.Steps(len(values.Text(args[0])), 4) },
		call: func(e *Scope, args []ref.Val) ref.Val {
			s := values.Text(args[0])
			if len(s) > maxCertificate {
				return values.Errorf("x509.decode: the text has %d bytes; %d are allowed", len(s), maxCertificate)
			}
			v, err := certificate.Decode(s)
			if err != nil {
				return types.WrapErr(err)
			}
			if m, ok := v.(map[string]any); ok {
				for _, name := range hiddenFields {
					delete(m, name)
				}
			}
			return e.native(v)
		},
	}},
}
