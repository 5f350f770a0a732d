package trust

import (
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
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
	return r, nil
}

// Check returns the mistake in a trusted root in JSON.
func Check(text []byte) error {
	_, err := parse(text)
	return err
}
