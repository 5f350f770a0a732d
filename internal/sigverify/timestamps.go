package sigverify

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/certificate"
)

// timestampAuthorities parses the chain of a timestamp authority. The certificates may have any order.
func timestampAuthorities(text string) ([]root.TimestampingAuthority, error) {
	if n := strings.Count(text, "-----BEGIN"); n > maxTSAChain {
		return nil, fmt.Errorf("TSA certificate chain contains too many certificates (%d), maximum allowed is %d", n, maxTSAChain)
	}
	certs, err := certificates(text, maxTSAChain)
	if err != nil {
		return nil, fmt.Errorf("error splitting tsa certificates: %w", err)
	}
	var leaves, between, roots []*x509.Certificate
	for _, c := range certs {
		switch {
		case !c.IsCA:
			leaves = append(leaves, c)
		case bytes.Equal(c.RawSubject, c.RawIssuer):
			roots = append(roots, c)
		default:
			between = append(between, c)
		}
	}
	switch {
	case len(leaves) > 1:
		return nil, errors.New("certificate chain must contain at most one TSA certificate")
	case len(between) > maxTSABetween:
		return nil, fmt.Errorf("TSA certificate chain contains too many intermediate certificates (%d), maximum allowed is %d", len(between), maxTSABetween)
	case len(roots) == 0:
		return nil, errors.New("error splitting tsa certificates: there is no root certificate")
	}
	var leaf *x509.Certificate // nil if the timestamp contains it
	if len(leaves) == 1 {
		leaf = leaves[0]
	}
	out := make([]root.TimestampingAuthority, len(roots))
	for n := range roots {
		out[n] = &root.SigstoreTimestampingAuthority{Root: roots[n], Intermediates: between, Leaf: leaf}
	}
	return out, nil
}

// maxStamps is the maximum number of timestamps of one signature.
const maxStamps = 32

// stampTimes returns the times that timestamp authorities prove. If the attestor has its own authorities, every timestamp must be from one of
// them. Otherwise the authorities of the trusted material are used; that is fetched only if the certificate needs a time, and is used if it
// is already there.
func (a *attestor) stampTimes(ctx context.Context, f *artefact, needed bool) (times []time.Time, err error) {
	if len(f.stamps) > maxStamps {
		return nil, refuse("the signature has more than %d timestamps", maxStamps)
	}
	authorities := a.stamps
	switch {
	case len(f.stamps) == 0:
		return nil, nil
	case authorities == nil && (!f.bundle || !needed && a.material == nil):
		return nil, nil
	case authorities == nil:
		m, err := a.trust(ctx)
		if err != nil {
			return nil, err
		}
		authorities = m.TimestampingAuthorities()
	}
	for _, stamp := range f.stamps {
		if err := checkStamp(stamp); err != nil {
			return nil, refuse("unable to verify RFC3161 timestamp bundle: %s", err)
		}
		at, err := stampTime(authorities, stamp, f.stamped)
		switch {
		case err == nil:
			times = append(times, at)
		case a.stamps != nil || !isStamp(stamp, f.stamped):
			return nil, refuse("unable to verify RFC3161 timestamp bundle: %s", err)
		}
	}
	return times, nil
}

// checkStamp returns an error if a timestamp contains a certificate with whose key no signature may be verified. The library verifies the
// signature while it parses the timestamp, before it knows the authority.
func checkStamp(stamp []byte) error {
	var response struct{ Status, Token asn1.RawValue }
	if _, err := asn1.Unmarshal(stamp, &response); err != nil {
		return nil //nolint:nilerr // no timestamp, which the library refuses
	}
	signed, err := pkcs7.Parse(response.Token.FullBytes)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	for _, c := range signed.Certificates {
		if err := certificate.CheckKey(c.PublicKey); err != nil {
			return err
		}
	}
	return nil
}

// isStamp reports whether a timestamp is for these bytes, whichever authority made it. A timestamp of an untrusted authority proves nothing,
// but one that is broken or for other bytes shows that the artefact was changed.
func isStamp(stamp, over []byte) bool {
	t, err := timestamp.ParseResponse(stamp)
	if err != nil || !t.HashAlgorithm.Available() {
		return false
	}
	h := t.HashAlgorithm.New()
	h.Write(over)
	return bytes.Equal(t.HashedMessage, h.Sum(nil))
}

func stampTime(authorities []root.TimestampingAuthority, stamp, over []byte) (time.Time, error) {
	err := errors.New("no timestamp authority is known")
	for _, authority := range authorities {
		var at *root.Timestamp
		if at, err = authority.Verify(stamp, over); err == nil {
			return at.Time, nil
		}
	}
	return time.Time{}, err
}
