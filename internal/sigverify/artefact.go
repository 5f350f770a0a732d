package sigverify

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
)

// artefact is one signature. Signatures of all formats are converted to this type.
type artefact struct {
	place  string // the tag or digest, and the layer
	bundle bool   // whether it is a Sigstore bundle; otherwise it is a layer of cosign
	broken error  // the reason why it cannot be verified at all
	blob   bool   // the payload itself is signed, not a claim about an image

	// Exactly one of these three is set and is what is signed: the text of a claim, an envelope with a statement, or the digest of the image's
	// manifest.
	payload  func(context.Context) ([]byte, error)
	envelope *dsse.Envelope
	message  *bundle.MessageSignature

	signature []byte
	cert      *x509.Certificate   // the certificate of the signer; nil for a bare key
	chain     []*x509.Certificate // the certificates above cert, which are not trusted by themselves
	hint      string              // the key that signed, according to the bundle
	entries   []*tlog.Entry
	old       *oldEntry // a log entry of the kind intoto 0.0.1
	stamps    [][]byte  // the timestamps of timestamp authorities
	stamped   []byte    // the bytes that are timestamped
	statement *statement
}

// entity presents an artefact to sigstore-go, which verifies the log entries.
type entity struct {
	verify.BaseSignedEntity
	content verify.SignatureContent
	signer  *signer
	entries []*tlog.Entry
}

// SignatureContent implements verify.SignatureProvider.
func (e *entity) SignatureContent() (verify.SignatureContent, error) { return e.content, nil }

// VerificationContent implements verify.VerificationProvider.
func (e *entity) VerificationContent() (verify.VerificationContent, error) { return e.signer, nil }

// TlogEntries implements verify.TlogEntryProvider.
func (e *entity) TlogEntries() ([]*tlog.Entry, error) { return e.entries, nil }

// signer is the signer of an artefact: a key, which may be in a certificate.
type signer struct {
	cert *x509.Certificate
	key  crypto.PublicKey
}

// CompareKey reports whether a log entry names this signer.
func (s *signer) CompareKey(logged any, _ root.TrustedMaterial) bool {
	if cert, ok := logged.(*x509.Certificate); ok {
		return s.cert != nil && s.cert.Equal(cert)
	}
	return s.cert == nil && sameKey(s.key, logged)
}

// ValidAtTime always returns true, since other checks test the validity with better error texts.
func (s *signer) ValidAtTime(time.Time, root.TrustedMaterial) bool { return true }

// Certificate returns the signer's certificate, or nil.
func (s *signer) Certificate() *x509.Certificate { return s.cert }

// Intermediates returns nil, since intermediate certificates are passed elsewhere.
func (s *signer) Intermediates() []*x509.Certificate { return nil }

// PublicKey returns nil for a signer with a certificate.
func (s *signer) PublicKey() verify.PublicKeyProvider {
	if s.cert != nil {
		return nil
	}
	return s
}

// Hint implements verify.PublicKeyProvider.
func (s *signer) Hint() string { return "" }

// sameKey reports whether two public keys are equal.
func sameKey(a crypto.PublicKey, b any) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// logMaterial is the part of the trusted material that the verification of log entries reads.
type logMaterial struct {
	root.BaseTrustedMaterial
	logs map[string]*root.TransparencyLog
	key  crypto.PublicKey
}

// RekorLogs implements root.TrustedMaterial.
func (m *logMaterial) RekorLogs() map[string]*root.TransparencyLog { return m.logs }

// PublicKeyVerifier implements root.TrustedMaterial.
func (m *logMaterial) PublicKeyVerifier(string) (root.TimeConstrainedVerifier, error) {
	v, err := signature.LoadVerifier(m.key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return root.NewExpiringKey(v, time.Time{}, time.Time{}), nil
}

// ctMaterial is the part of the trusted material that the verification of certificate timestamps reads.
type ctMaterial struct {
	root.BaseTrustedMaterial
	logs map[string]*root.TransparencyLog
}

// CTLogs implements root.TrustedMaterial.
func (m *ctMaterial) CTLogs() map[string]*root.TransparencyLog { return m.logs }

// single returns the payload and the signature of an envelope that has exactly one signature.
func single(e *dsse.Envelope) (payload, sig []byte, err error) {
	if len(e.Signatures) != 1 {
		return nil, nil, errors.New("exactly one signature is required")
	}
	if payload, err = e.DecodeB64Payload(); err != nil {
		return nil, nil, err
	}
	sig, err = base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	return payload, sig, err
}
