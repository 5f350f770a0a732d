package notary

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/notaryproject/notation-go/verifier/truststore"
	"github.com/veraison/go-cose"

	"ephor.invalid/ephor/internal/certificate"
	"ephor.invalid/ephor/internal/world"
)

// Media types of envelopes.
const (
	mediaTypeJWS  = "application/jose+json"
	mediaTypeCOSE = "application/cose"
)

// Limits on the number of certificates. They are checked before any certificate is parsed.
const (
	maxChain  = 11 // in a signature, and in the field certChain
	maxCerts  = 50 // in the field cert: several signers may be trusted
	maxStamps = 12 // of timestamping authorities
	maxStores = 256
	maxText   = 1 << 20
)

const storeName = "policy"

// store holds the certificates of one policy. It implements truststore.X509TrustStore.
type store struct {
	ca, tsa []*x509.Certificate
	policy  *trustpolicy.Document
}

// GetCertificates implements truststore.X509TrustStore.
func (s *store) GetCertificates(_ context.Context, kind truststore.Type, name string) ([]*x509.Certificate, error) {
	switch {
	case kind == truststore.TypeCA && name == storeName:
		return s.ca, nil
	case kind == truststore.TypeTSA && name == storeName:
		return s.tsa, nil
	}
	return nil, nil
}

// stores caches the certificates of policies by their texts.
type stores struct {
	mu    sync.RWMutex
	known map[[3]string]*store
}

func (s *stores) get(certs world.CertificateAttestor, tsa string) (*store, error) {
	key := [3]string{certs.Certificate, certs.Chain, tsa}
	s.mu.RLock()
	known := s.known[key]
	s.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	made, err := newStore(certs, tsa)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[[3]string]*store{}
	}
	if len(s.known) >= maxStores {
		for other := range s.known { // removes any entry
			delete(s.known, other)
			break
		}
	}
	s.known[key] = made
	return made, nil
}

// newStore returns the store for the certificates of an attestor. A certificate is trusted, and what it issued. With a chain beside it, only
// the certificate is: the chain above it would vouch for other signers, too.
func newStore(certs world.CertificateAttestor, tsa string) (*store, error) {
	out := &store{}
	var chain []*x509.Certificate
	for _, part := range []struct {
		text string
		max  func(n int) error
		to   *[]*x509.Certificate
	}{
		{certs.Certificate, atMost(maxCerts, "too many certificates (%d), maximum allowed is %d"), &out.ca},
		{certs.Chain, atMost(maxChain, "certificate chain too long (%d), maximum allowed is %d"), &chain},
		{tsa, atMost(maxStamps, "TSA certificate chain contains too many certificates (%d), maximum allowed is %d"), &out.tsa},
	} {
		found, err := certificates(part.text, part.max)
		if err != nil {
			return nil, fmt.Errorf("failed to parse certificates: %w", err)
		}
		*part.to = append(*part.to, found...)
	}
	if len(out.ca) == 0 {
		out.ca = chain
	}
	if len(out.ca) == 0 {
		return nil, errors.New("failed to parse certificates: there are none")
	}
	if out.tsa == nil && strings.TrimSpace(tsa) != "" {
		return nil, errors.New("failed to parse certificates: there are none of a time stamping authority")
	}
	out.policy = policyOf(out.tsa != nil)
	return out, nil
}

func atMost(limit int, text string) func(int) error {
	return func(n int) error {
		if n > limit {
			return fmt.Errorf(text, n, limit)
		}
		return nil
	}
}

func tooLong(n int) error {
	return fmt.Errorf("certificate chain too long (%d), maximum allowed is %d", n, maxChain)
}

// certificates parses certificates in PEM, or in base64 of PEM.
func certificates(text string, allowed func(int) error) ([]*x509.Certificate, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("the text is longer than %d bytes", maxText)
	}
	data := []byte(text)
	if !strings.Contains(text, "-----BEGIN") {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			data = decoded
		}
	}
	if err := allowed(bytes.Count(data, []byte("-----BEGIN CERTIFICATE-----"))); err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for len(bytes.TrimSpace(data)) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil, errors.New("PEM decoding failed")
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a block of type %q is not a certificate", block.Type)
		}
		parsed, err := certificate.Parse(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, parsed)
	}
	return out, nil
}

// chainJWS returns the certificates in a JWS envelope.
func chainJWS(envelope []byte) ([][]byte, error) {
	var in struct {
		Header struct {
			Chain [][]byte `json:"x5c"`
		} `json:"header"`
	}
	if err := json.Unmarshal(envelope, &in); err != nil {
		return nil, err
	}
	return in.Header.Chain, nil
}

// chainCOSE returns the certificates in a COSE envelope.
func chainCOSE(envelope []byte) (out [][]byte, err error) {
	var in cose.Sign1Message
	if err := in.UnmarshalCBOR(envelope); err != nil {
		return nil, err
	}
	chain, _ := in.Headers.Unprotected[cose.HeaderLabelX5Chain].([]any)
	for _, c := range chain {
		der, _ := c.([]byte)
		out = append(out, der)
	}
	return out, nil
}
