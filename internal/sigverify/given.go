package sigverify

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/ephor-dev/ephor/internal/world"
)

// Given knows what policies spell out, keys in PEM and trusted roots in JSON, and asks nothing. It implements Keys and Trust.
type Given struct{}

// Key implements Keys.
func (Given) Key(_ context.Context, k *world.KeyAttestor, _ bool) (crypto.PublicKey, error) {
	if k.PublicKey == "" {
		return nil, fmt.Errorf("keys in Secrets and key services are %w", world.ErrUnavailable)
	}
	block, _ := pem.Decode([]byte(k.PublicKey))
	if block == nil {
		return nil, errors.New("failed to load public key from PEM: pem to public key: PEM decoding failed")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("failed to load public key from PEM: pem to public key: %w", err)
	}
	return key, nil
}

// maxRoot bounds a trusted root in a policy.
const maxRoot = 1 << 20

// Material implements Trust.
func (Given) Material(_ context.Context, t world.Trust) (root.TrustedMaterial, error) {
	switch {
	case t.TrustedRoot == "":
		return nil, fmt.Errorf("the keys of public logs and authorities are %w", world.ErrUnavailable)
	case len(t.TrustedRoot) > maxRoot:
		return nil, fmt.Errorf("the trusted root is longer than %d bytes", maxRoot)
	}
	return root.NewTrustedRootFromJSON([]byte(t.TrustedRoot))
}
