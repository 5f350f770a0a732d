package sigverify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// errNoNotary is for a Verifier that cannot verify signatures of Notary.
var errNoNotary = fmt.Errorf("signatures of Notary are %w", world.ErrUnavailable)

// notarySignature looks for a signature of Notary of what describe describes: the image, or what refers to it.
func (v *Verifier) notarySignature(ctx context.Context, i *image, describe func(context.Context) (v1.Descriptor, error), r world.SignatureRequest) error {
	if r.Attestor == nil || r.Attestor.Certificate == nil {
		return errors.New("certificates are required")
	}
	if v.options.Notary == nil {
		return errNoNotary
	}
	subject, err := describe(ctx)
	if err != nil {
		return err
	}
	name := i.repository.Name() + "@" + subject.Digest.String()
	var all []referrer
	if subject.Digest == i.digest {
		all, err = i.referrers(ctx)
	} else {
		all, err = i.referrersOf(ctx, subject.Digest)
	}
	if err != nil {
		return err
	}
	tried := 0
	var reasons []string
	for _, s := range all {
		if s.kind != typeNotary {
			continue
		}
		if tried++; tried > maxNotary {
			break
		}
		err := v.oneNotary(ctx, i, subject, s, r)
		if err == nil {
			return nil
		}
		if !isUnverified(err) {
			return err
		}
		reasons = append(reasons, err.Error())
	}
	if tried == 0 {
		return unverified("failed to verify %s: no signature is associated with %q, make sure the artifact was signed successfully", name, name)
	}
	return unverified("failed to verify %s: %s", name, strings.Join(reasons, "; "))
}

// oneNotary verifies one signature of Notary.
func (v *Verifier) oneNotary(ctx context.Context, i *image, subject v1.Descriptor, s referrer, r world.SignatureRequest) error {
	layer, blob, err := i.onlyLayer(ctx, s, "signature")
	if err != nil {
		return err
	}
	return v.options.Notary.Signature(ctx, NotaryArtefact{
		Repository: i.repository.Name(), Subject: subject, MediaType: string(layer.MediaType), Envelope: blob,
	}, *r.Attestor.Certificate, r.Attestor.CTLog.TSACertChain)
}

// onlyLayer reads the layer of a manifest that has exactly one.
func (i *image) onlyLayer(ctx context.Context, s referrer, what string) (v1.Descriptor, []byte, error) {
	m, err := i.manifest(ctx, s.Digest.String())
	switch {
	case err != nil:
		return v1.Descriptor{}, nil, err
	case m == nil:
		return v1.Descriptor{}, nil, fmt.Errorf("the %s %s is gone", what, s.Digest)
	case len(m.Layers) == 0:
		return v1.Descriptor{}, nil, unverified("no %s found: %s", what, s.Digest)
	case len(m.Layers) > 1:
		return v1.Descriptor{}, nil, unverified("multiple layers in %s not supported: %s", what, s.Digest)
	}
	blob, err := i.blob(ctx, m.Layers[0], maxStatement)
	return m.Layers[0], blob, err
}

// notaryStatements are what refers to the image, is of the wanted type and has a signature of Notary. Without an attestor no signature is required.
func (v *Verifier) notaryStatements(ctx context.Context, i *image, r world.SignatureRequest) ([]world.Statement, error) {
	all, err := i.referrers(ctx)
	if err != nil {
		return nil, err
	}
	var out []world.Statement
	var reasons []string
	tried := 0
	for _, s := range all {
		if s.kind != r.Type {
			continue
		}
		if tried++; tried > maxSignatures {
			return nil, fmt.Errorf("too many referrers found, max limit is %d", maxSignatures)
		}
		if r.Attestor != nil {
			err := v.notarySignature(ctx, i, func(context.Context) (v1.Descriptor, error) { return s.Descriptor, nil }, r)
			if isUnverified(err) {
				reasons = append(reasons, err.Error())
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		_, blob, err := i.onlyLayer(ctx, s, "predicate")
		if err != nil {
			if isUnverified(err) {
				reasons = append(reasons, err.Error())
				continue
			}
			return nil, err
		}
		predicate, err := value.DecodeJSON(blob)
		if err != nil {
			reasons = append(reasons, "the predicate cannot be read: "+err.Error())
			continue
		}
		out = append(out, world.Statement{Type: r.Type, Predicate: predicate, Document: predicate})
	}
	if len(out) == 0 && len(reasons) > 0 {
		return nil, unverified("%s", strings.Join(reasons, "; "))
	}
	return out, nil
}
