package trust

import (
	"crypto/x509"
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/certificate"
)

// publicGood is the trusted root of Sigstore's public instance, copied from github.com/sigstore/sigstore v1.10.8, file
// pkg/tuf/repository/targets/trusted_root.json (Apache License 2.0): the TUF target of that name in the repository
// https://tuf-repo-cdn.sigstore.dev. A test compares it with the file in the version of the module github.com/sigstore/sigstore that
// the build uses.
//
//go:embed public-good.json
var publicGood []byte

// embeddedAt is the time at which publicGood was last compared with the public instance. A test fails one year later.
var embeddedAt = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// embedded parses publicGood on first use.
var embedded = sync.OnceValues(func() (*root.TrustedRoot, error) { return parse(publicGood) })

// maxRoot is the maximum size of a trusted root in JSON, in bytes.
const maxRoot = 1 << 20

// parse parses a trusted root.
func parse(text []byte) (*root.TrustedRoot, error) {
	if len(text) > maxRoot {
		return nil, fmt.Errorf("the trusted root has %d bytes, more than %d", len(text), maxRoot)
	}
	r, err := root.NewTrustedRootFromJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the trusted root cannot be read: %w", err)
	}
	if len(r.FulcioCertificateAuthorities()) == 0 && len(r.RekorLogs()) == 0 && len(r.CTLogs()) == 0 && len(r.TimestampingAuthorities()) == 0 {
		return nil, fmt.Errorf("the trusted root contains neither keys nor certificates")
	}
	if err := checkKeys(r); err != nil {
		return nil, fmt.Errorf("the trusted root cannot be used: %w", err)
	}
	return r, nil
}

// checkKeys checks the sizes of all keys in a trusted root.
func checkKeys(r *root.TrustedRoot) error {
	var certs []*x509.Certificate
	for _, a := range r.FulcioCertificateAuthorities() {
		if a, ok := a.(*root.FulcioCertificateAuthority); ok {
			certs = append(append(certs, a.Root), a.Intermediates...)
		}
	}
	for _, a := range r.TimestampingAuthorities() {
		if a, ok := a.(*root.SigstoreTimestampingAuthority); ok {
			certs = append(append(certs, a.Root, a.Leaf), a.Intermediates...)
		}
	}
	for _, c := range certs {
		if c == nil {
			continue
		}
		if err := certificate.CheckKey(c.PublicKey); err != nil {
			return err
		}
	}
	for _, logs := range []map[string]*root.TransparencyLog{r.RekorLogs(), r.CTLogs()} {
		for _, log := range logs {
			if err := certificate.CheckKey(log.PublicKey); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check returns the mistake in a trusted root in JSON.
func Check(text []byte) error {
	_, err := parse(text)
	return err
}
