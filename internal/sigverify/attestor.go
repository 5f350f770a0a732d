package sigverify

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/world"
)

// attestor holds what one attestor trusts and requires. It belongs to one goroutine and one query.
type attestor struct {
	*world.Attestor
	verifier *Verifier
	confined bool

	hash    crypto.Hash                 // the hash of signatures; 0 for the one that belongs to the key
	keys    []crypto.PublicKey          // one of these keys must have signed; empty if any certified key is accepted
	cert    *x509.Certificate           // the certificate of the key, for which one of roots must vouch
	roots   []root.CertificateAuthority // nil for the authorities of the trusted material
	rekor   map[string]*root.TransparencyLog
	ct      map[string]*root.TransparencyLog
	stamps  []root.TimestampingAuthority
	who     []identity
	details []detail

	material root.TrustedMaterial // the trusted material, set when it is first needed
	accepted crypto.PublicKey     // the key that made the last accepted signature; nil for the key of its certificate
}

var algorithms = map[string]crypto.Hash{
	"": crypto.SHA256, "sha224": crypto.SHA224, "sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512,
}

// prepare reads the keys and certificates of an attestor. An error is a mistake in the attestor, or a key that cannot be read. A nil attestor
// accepts any signer whom the public authorities certify.
func (v *Verifier) prepare(ctx context.Context, in *world.Attestor, confined bool) (a *attestor, err error) {
	if in == nil {
		in = &world.Attestor{Keyless: &world.KeylessAttestor{}}
	}
	a = &attestor{Attestor: in, verifier: v, confined: confined}
	if in.Keyless != nil && in.Keyless.Roots != "" {
		certs, err := certificates(in.Keyless.Roots, maxChain)
		if err != nil {
			return nil, fmt.Errorf("failed to load Root certificates: error creating root cert pool: %w", err)
		}
		a.roots = anchors(certs)
	}
	var known bool
	if a.hash, known = algorithms[in.Algorithm]; !known {
		return nil, fmt.Errorf("invalid signature algorithm provided %s", in.Algorithm)
	}
	switch {
	case in.Key != nil:
		if a.keys, err = v.keys(ctx, in.Key, confined); err != nil {
			return nil, err
		}
	case in.Certificate != nil:
		if err = a.prepareCertificate(in.Certificate); err != nil {
			return nil, err
		}
	case in.Keyless != nil:
		if a.who, a.details, err = identities(in.Keyless); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the attestor has no key, certificate or identity")
	}
	if text := in.Rekor.PublicKey; text != "" && !in.Rekor.Ignore {
		if a.rekor, err = logs(text, in.Rekor.URL); err != nil {
			return nil, fmt.Errorf("failed to load Rekor public keys: %w", err)
		}
	}
	if text := in.CTLog.PublicKey; text != "" && !in.CTLog.Ignore {
		if a.ct, err = logs(text, ""); err != nil {
			return nil, fmt.Errorf("failed to load CTLogs public keys: %w", err)
		}
	}
	if in.CTLog.TSACertChain != "" {
		if a.stamps, err = timestampAuthorities(in.CTLog.TSACertChain); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// AllKeys is an optional extension of Keys: some keys have several versions, each of which may have signed.
type AllKeys interface {
	// All returns the keys that k names, the newest first.
	All(ctx context.Context, k *world.KeyAttestor, confined bool) ([]crypto.PublicKey, error)
}

func (v *Verifier) keys(ctx context.Context, k *world.KeyAttestor, confined bool) ([]crypto.PublicKey, error) {
	if all, ok := v.options.Keys.(AllKeys); ok {
		return all.All(ctx, k, confined)
	}
	key, err := v.options.Keys.Key(ctx, k, confined)
	return []crypto.PublicKey{key}, err
}

func (a *attestor) prepareCertificate(in *world.CertificateAttestor) error {
	var chain []*x509.Certificate
	var err error
	if in.Chain != "" {
		if chain, err = certificates(in.Chain, maxChain); err != nil {
			return fmt.Errorf("failed to load certificates: %w", err)
		}
	}
	if in.Certificate == "" {
		a.roots = anchors(chain)
		return nil
	}
	certs, err := certificates(in.Certificate, maxChain)
	if err != nil {
		return fmt.Errorf("failed to load certificate from %s: %w", firstLine(in.Certificate), err)
	}
	a.cert, a.keys = certs[0], []crypto.PublicKey{certs[0].PublicKey}
	if len(chain) > 0 { // the order is from the parent to the root
		a.roots = []root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: chain[len(chain)-1], Intermediates: chain}}
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 64)]
}

// trust returns the trusted material, for the parts that the attestor does not set itself.
func (a *attestor) trust(ctx context.Context) (root.TrustedMaterial, error) {
	if a.material == nil {
		m, err := a.verifier.options.Trust.Material(ctx, a.Trust)
		if err != nil {
			return nil, fmt.Errorf("failed to get trusted material: %w", err)
		}
		a.material = m
	}
	return a.material, nil
}

// authorities returns the authorities that certify signers.
func (a *attestor) authorities(ctx context.Context) ([]root.CertificateAuthority, error) {
	if a.roots != nil {
		return a.roots, nil
	}
	m, err := a.trust(ctx)
	if err != nil {
		return nil, err
	}
	return m.FulcioCertificateAuthorities(), nil
}

// logs returns the transparency logs whose entries are accepted.
func (a *attestor) logs(ctx context.Context) (map[string]*root.TransparencyLog, error) {
	if a.rekor != nil {
		return a.rekor, nil
	}
	m, err := a.trust(ctx)
	if err != nil {
		return nil, err
	}
	return m.RekorLogs(), nil
}

// ctLogs returns the certificate transparency logs.
func (a *attestor) ctLogs(ctx context.Context) (map[string]*root.TransparencyLog, error) {
	if a.ct != nil {
		return a.ct, nil
	}
	m, err := a.trust(ctx)
	if err != nil {
		return nil, err
	}
	return m.CTLogs(), nil
}
