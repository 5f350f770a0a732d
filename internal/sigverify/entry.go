package sigverify

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"

	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/tlog"

	"ephor.invalid/ephor/internal/certificate"
)

// parseEntry parses an entry of a log.
func parseEntry(e *protorekor.TransparencyLogEntry) (*tlog.Entry, error) {
	if err := checkEntry(e.GetCanonicalizedBody()); err != nil {
		return nil, err
	}
	return tlog.ParseTransparencyLogEntry(e)
}

// checkEntry returns an error if the body of a log entry contains a key with which no signature may be verified. The libraries verify the
// signature in an entry while they parse it, before they know that a log made it.
func checkEntry(body []byte) error {
	for texts := json.NewDecoder(bytes.NewReader(body)); ; {
		token, err := texts.Token()
		if err != nil {
			return nil //nolint:nilerr // the end, or no JSON, which the library refuses
		}
		if text, ok := token.(string); ok {
			if err := checkKeys([]byte(text), 2); err != nil {
				return fmt.Errorf("the log entry: %w", err)
			}
		}
	}
}

// checkKeys checks the keys and certificates in a text: in PEM, in DER, or in base64 of them, which may be encoded again.
func checkKeys(text []byte, encoded int) error {
	if bytes.Contains(text, []byte("-----BEGIN")) {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if err := checkKeys(block.Bytes, 0); err != nil {
				return err
			}
		}
		return nil
	}
	if cert, err := x509.ParseCertificate(text); err == nil {
		return certificate.CheckKey(cert.PublicKey)
	}
	if key, err := x509.ParsePKIXPublicKey(text); err == nil {
		return certificate.CheckKey(key)
	}
	if encoded == 0 {
		return nil
	}
	decoded, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return nil //nolint:nilerr // another text
	}
	return checkKeys(decoded, encoded-1)
}
