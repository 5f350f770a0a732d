package sigverify

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/certificate"
)

// certificates parses PEM, or PEM in base64. It counts the certificates before it parses them.
func certificates(text string, max int) ([]*x509.Certificate, error) {
	data := []byte(strings.TrimSpace(text))
	if !bytes.HasPrefix(data, []byte("-----BEGIN")) {
		if decoded, err := base64.StdEncoding.DecodeString(string(data)); err == nil {
			data = decoded
		}
	}
	if n := bytes.Count(data, []byte("-----BEGIN")); n > max {
		return nil, &chainError{n, max}
	}
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it contains a %s", block.Type)
		}
		cert, err := certificate.Parse(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, errors.New("it contains no certificate in PEM")
	}
	return out, nil
}

// chainError means that there are more certificates than allowed.
type chainError struct{ n, max int }

func (e *chainError) Error() string {
	return fmt.Sprintf("certificate chain too long (%d), maximum allowed is %d", e.n, e.max)
}

// anchors returns an authority for each certificate. The other certificates may be intermediates below it.
func anchors(certs []*x509.Certificate) []root.CertificateAuthority {
	out := make([]root.CertificateAuthority, len(certs))
	for n := range certs {
		out[n] = &root.FulcioCertificateAuthority{Root: certs[n], Intermediates: certs}
	}
	return out
}

// maxLogKeys is the maximum number of keys of one log.
const maxLogKeys = 10

// logs parses the public keys of a log. The hash of a key identifies it.
func logs(text, address string) (map[string]*root.TransparencyLog, error) {
	out := map[string]*root.TransparencyLog{}
	for data := []byte(text); ; {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if len(out) == maxLogKeys {
			return nil, fmt.Errorf("it contains more than %d keys", maxLogKeys)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err == nil {
			err = certificate.CheckKey(key)
		}
		if err != nil {
			return nil, err
		}
		encoded, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, err
		}
		id := sha256.Sum256(encoded)
		out[hex.EncodeToString(id[:])] = &root.TransparencyLog{
			BaseURL: address, ID: id[:], ValidityPeriodStart: time.Unix(1, 0), PublicKey: key, HashFunc: crypto.SHA256, SignatureHashFunc: crypto.SHA256,
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it contains no public key in PEM")
	}
	return out, nil
}
