package sigverify

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/ephor-dev/ephor/internal/world"
)

// attestor is what one attestor trusts and demands. One goroutine uses it, for one question.
type attestor struct {
	*world.Attestor
	verifier *Verifier
	confined bool

	hash    crypto.Hash                 // of signatures; 0 for that of the key
	keys    []crypto.PublicKey          // one of which has to have signed; none for any that a certificate vouches for
	cert    *x509.Certificate           // of the key, with the authorities that have to vouch for it
	roots   []root.CertificateAuthority // nil for those of the trust
	rekor   map[string]*root.TransparencyLog
	ct      map[string]*root.TransparencyLog
	stamps  []root.TimestampingAuthority
	who     []identity
	details []detail

	material root.TrustedMaterial // of the trust, once it was needed
	accepted crypto.PublicKey     // the key that the last accepted signature is by; nil for that of its certificate
}

var algorithms = map[string]crypto.Hash{
	"": crypto.SHA256, "sha224": crypto.SHA224, "sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512,
}

// prepare reads what an attestor names. An error is a mistake in the attestor, or a key that cannot be read. A nil attestor is any signer that the public authorities vouch for.
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

// AllKeys is what Keys may be too: some keys have several versions, of which each may have signed.
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
	if len(chain) > 0 { // the parent first, the root last
		a.roots = []root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: chain[len(chain)-1], Intermediates: chain}}
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 64)]
}

// trust asks for the material that the attestor does not name itself.
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

// authorities vouch for certificates of signers.
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

// logs are the transparency logs whose entries count.
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

// ctLogs are the logs of certificates.
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
