package sigverify

import (
	"context"
	"crypto/x509"
	"encoding/asn1"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// vouched checks that an authority vouches for a certificate at all of the given times, and that the certificate was logged.
func (a *attestor) vouched(ctx context.Context, f *artefact, cert *x509.Certificate, times []time.Time) error {
	authorities, err := a.authorities(ctx)
	if err != nil {
		return err
	}
	leaf := *cert
	leaf.UnhandledCriticalExtensions = nil
	for _, oid := range cert.UnhandledCriticalExtensions {
		if !oid.Equal(cryptoutils.SANOID) { // identify reads subjects of Fulcio's own kind
			leaf.UnhandledCriticalExtensions = append(leaf.UnhandledCriticalExtensions, oid)
		}
	}
	var chains [][]*x509.Certificate
	for _, at := range times {
		if chains, err = chainsOf(authorities, &leaf, f.chain, at); err != nil {
			return refuse("failed to verify leaf certificate: %s", err)
		}
	}
	if a.CTLog.Ignore || a.cert != nil && !hasArc(cert) {
		return nil
	}
	known, err := a.ctLogs(ctx)
	if err != nil {
		return err
	}
	if f.bundle && len(known) == 0 {
		return nil // the trusted material contains no certificate log
	}
	if err := verify.VerifySignedCertificateTimestamp(chains, 1, &ctMaterial{logs: known}); err != nil {
		return refuse("certificate does not include required embedded SCT and no detached SCT was set: %s", err)
	}
	return nil
}

// chainsOf returns the chains from a certificate to an authority. between are intermediate certificates, which are not trusted by
// themselves.
func chainsOf(authorities []root.CertificateAuthority, leaf *x509.Certificate, between []*x509.Certificate, at time.Time) (chains [][]*x509.Certificate, err error) {
	err = refuse("no certificate authority is known")
	for _, authority := range authorities {
		if fulcio, ok := authority.(*root.FulcioCertificateAuthority); ok && len(between) > 0 {
			more := *fulcio
			more.Intermediates = append(append([]*x509.Certificate{}, fulcio.Intermediates...), between...)
			authority = &more
		}
		if chains, err = authority.Verify(leaf, at); err == nil {
			return chains, nil
		}
	}
	return nil, err
}

// hasArc reports whether Fulcio issued the certificate.
func hasArc(cert *x509.Certificate) bool {
	for _, e := range cert.Extensions {
		if len(e.Id) > len(arc) && asn1.ObjectIdentifier(e.Id[:len(arc)]).Equal(arc) {
			return true
		}
	}
	return false
}

// valid checks that a certificate was valid at the given time.
func valid(cert *x509.Certificate, at time.Time) error {
	switch {
	case cert.NotAfter.Before(at):
		return refuse("checking expiry on certificate with bundle: certificate expired before observed time: %s is before %s",
			cert.NotAfter.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339))
	case cert.NotBefore.After(at):
		return refuse("checking expiry on certificate with bundle: certificate was issued after observed time: %s is after %s",
			cert.NotBefore.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339))
	}
	return nil
}
