package sigverify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// errNoNotary is the error of a Verifier that cannot verify signatures of Notary.
var errNoNotary = fmt.Errorf("signatures of Notary are %w", world.ErrUnavailable)

// errNoCertificates is the error for an attestor that no signature of Notary can satisfy.
var errNoCertificates = errors.New("certificates are required")

// notarySignature looks for a valid signature of Notary for the content that describe returns: the image, or a referrer of the image.
func (v *Verifier) notarySignature(ctx context.Context, i *image, describe func(context.Context) (v1.Descriptor, error), r world.SignatureRequest) error {
	if r.Attestor == nil || r.Attestor.Certificate == nil {
		return errNoCertificates
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
	if all, err = i.ofKind(ctx, all, typeNotary); err != nil {
		return err
	}
	if len(all) == 0 {
		return unverified("failed to verify %s: no signature is associated with %q, make sure the artifact was signed successfully", name, name)
	}
	reasons := []string{"failed to verify " + name + ": signature verification failed"}
	var outage error
	for n, s := range all {
		if n == maxNotary {
			reasons = append(reasons, fmt.Sprintf("signature evaluation stopped. The configured limit of %d signatures to verify per artifact exceeded", maxNotary))
			break
		}
		switch err := v.oneNotary(ctx, i, subject, s, r); {
		case err == nil:
			return nil // one valid signature is sufficient, even if others could not be read
		case isUnverified(err):
			reasons = append(reasons, fmt.Sprintf("failed to verify signature with digest %s, %s", s.Digest, err))
		case outage == nil:
			outage = fmt.Errorf("failed to verify %s: failed to verify signature with digest %s, %w", name, s.Digest, err)
		}
	}
	if outage != nil {
		return outage
	}
	return unverified("%s", strings.Join(reasons, "\n"))
}

// oneNotary verifies one signature of Notary.
func (v *Verifier) oneNotary(ctx context.Context, i *image, subject v1.Descriptor, s referrer, r world.SignatureRequest) error {
	layer, blob, err := i.signatureOf(ctx, s, subject.Digest)
	if err != nil {
		return err
	}
	return v.options.Notary.Signature(ctx, NotaryArtefact{
		Repository: i.repository.Name(), Subject: subject, MediaType: string(layer.MediaType), Envelope: blob, Confined: r.Registry.Confined,
	}, *r.Attestor.Certificate, r.Attestor.CTLog.TSACertChain)
}

// kindsUnsaid are the artifact types of registries that report the media type of the configuration instead.
var kindsUnsaid = map[string]bool{"": true, "application/vnd.oci.empty.v1+json": true, "application/vnd.oci.image.config.v1+json": true}

// ofKind returns the referrers of a type. If the registry does not report the type, it reads the manifests.
func (i *image) ofKind(ctx context.Context, all []referrer, kind string) (out []referrer, err error) {
	unsaid := 0
	for _, s := range all {
		if kindsUnsaid[s.kind] && kind != s.kind {
			if unsaid++; unsaid > maxSignatures {
				return nil, fmt.Errorf("too many referrers found, max limit is %d", maxSignatures)
			}
			switch m, err := i.manifest(ctx, s.Digest.String()); {
			case isUnverified(err) || err == nil && m == nil:
				continue // content that cannot be a manifest has no type
			case err != nil:
				return nil, err
			default:
				s.kind = cmp.Or(m.ArtifactType, s.kind)
			}
		}
		if s.kind == kind {
			out = append(out, s)
		}
	}
	return out, nil
}

// signatureOf reads the envelope in a referrer of a digest.
func (i *image) signatureOf(ctx context.Context, s referrer, subject v1.Hash) (v1.Descriptor, []byte, error) {
	m, err := i.attached(ctx, s, subject)
	if err != nil {
		return v1.Descriptor{}, nil, err
	}
	return i.onlyLayer(ctx, s, m, "signature", maxPayload)
}

// onlyLayer reads the layer of a manifest that must have exactly one.
func (i *image) onlyLayer(ctx context.Context, s referrer, m *v1.Manifest, what string, max int64) (v1.Descriptor, []byte, error) {
	switch {
	case len(m.Layers) == 0:
		return v1.Descriptor{}, nil, unverified("no %s found: %s", what, s.Digest)
	case len(m.Layers) > 1:
		return v1.Descriptor{}, nil, unverified("multiple layers in %s not supported: %s", what, s.Digest)
	case m.Layers[0].Size > max:
		return v1.Descriptor{}, nil, unverified("%s size %d exceeds %d for digest %s", sized[what], m.Layers[0].Size, max, m.Layers[0].Digest)
	}
	blob, err := i.blob(ctx, m.Layers[0], max)
	return m.Layers[0], blob, err
}

// sized are the names, in errors, for layers that are too large.
var sized = map[string]string{"signature": "payload", "predicate": "predicate"}

// notaryStatements returns the statements of the wanted type that refer to the image and have a valid signature of Notary. It ignores others
// of the type, such as those of other signers. Without an attestor no signature is required.
func (v *Verifier) notaryStatements(ctx context.Context, i *image, r world.SignatureRequest) ([]world.Statement, error) {
	all, err := i.referrers(ctx)
	if err != nil {
		return nil, err
	}
	if all, err = i.ofKind(ctx, all, r.Type); err != nil {
		return nil, err
	}
	if len(all) > maxSignatures {
		return nil, fmt.Errorf("too many referrers found, max limit is %d", maxSignatures)
	}
	var out []world.Statement
	reasons := []string{fmt.Sprintf("no matching attestations found for image %s@%s with type %s", i.repository.Name(), i.digest, r.Type)}
	for _, s := range all {
		predicate, err := v.notaryStatement(ctx, i, s, r)
		switch {
		case isUnverified(err):
			reasons = append(reasons, err.Error())
		case err != nil:
			return nil, err // it may contain a statement that the others lack
		default:
			out = append(out, world.Statement{Type: r.Type, Predicate: predicate, Document: predicate})
		}
	}
	if len(out) == 0 {
		return nil, unverified("%s", strings.Join(reasons, "; "))
	}
	return out, nil
}

// notaryStatement verifies the signature of one referrer and returns its statement.
func (v *Verifier) notaryStatement(ctx context.Context, i *image, s referrer, r world.SignatureRequest) (any, error) {
	m, err := i.attached(ctx, s, i.digest)
	if err != nil {
		return nil, err
	}
	if r.Attestor != nil {
		if err := v.notarySignature(ctx, i, func(context.Context) (v1.Descriptor, error) { return s.Descriptor, nil }, r); err != nil {
			return nil, err
		}
	}
	_, blob, err := i.onlyLayer(ctx, s, m, "predicate", maxStatement)
	if err != nil {
		return nil, err
	}
	predicate, err := value.DecodeJSON(blob)
	if err != nil {
		return nil, unverified("the predicate %s cannot be read: %s", s.Digest, err)
	}
	if _, isObject := predicate.(map[string]any); !isObject {
		return nil, unverified("the predicate %s is not a JSON object", s.Digest)
	}
	return predicate, nil
}
