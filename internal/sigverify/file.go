package sigverify

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"ephor.invalid/ephor/internal/world"
)

// File is the file to which a detached signature belongs.
type File struct {
	Digest v1.Hash
	// Content reads the whole file; nil if only the digest is known.
	Content func() ([]byte, error)
	// Size is the size of the content; negative if only the digest is known.
	Size int64
}

func (f File) subject() subject {
	return subject{f.Digest, func(context.Context) ([]byte, error) {
		if f.Content == nil {
			return nil, errors.New("the signature is over the content itself, and only its digest is given")
		}
		return f.Content()
	}}
}

// ExamineBundle reports whether a bundle is a signature of the file, or a statement about it, that satisfies the attestor. With a type, only
// a statement of that type is accepted.
func (v *Verifier) ExamineBundle(ctx context.Context, bundle []byte, of File, kind string, by *world.Attestor) (Finding, error) {
	a, err := v.prepare(ctx, by, false)
	if err != nil {
		return Finding{}, err
	}
	f := &artefact{bundle: true}
	f.broken = f.parseBundle(bundle)
	if f.broken == nil && kind != "" && (f.statement == nil || f.statement.PredicateType != kind) {
		f.broken = fmt.Errorf("it is not a statement of the type %s", kind)
	}
	return a.examine(ctx, f, of.subject()), nil
}

// ExamineEnvelope reports whether an envelope of Notary is a signature of the file by the certificates of the attestor.
func (v *Verifier) ExamineEnvelope(ctx context.Context, a NotaryArtefact, of File, by *world.Attestor) (Finding, error) {
	out := Finding{Kind: "signature"}
	switch {
	case by == nil || by.Certificate == nil:
		return out, errNoCertificates
	case v.options.Notary == nil:
		return out, errNoNotary
	}
	name, issuer := v.options.Notary.Signer(a.MediaType, a.Envelope)
	if out.Issuer = issuer; name != "" {
		out.Subjects = []string{name}
	}
	switch {
	case a.Subject.Digest != of.Digest:
		out.Reason = fmt.Sprintf("the signature is for %s, not %s", a.Subject.Digest, of.Digest)
		return out, nil
	case of.Size >= 0 && a.Subject.Size != of.Size:
		out.Reason = fmt.Sprintf("the signature is for %d bytes, not %d", a.Subject.Size, of.Size)
		return out, nil
	}
	err := v.options.Notary.Signature(ctx, a, *by.Certificate, by.CTLog.TSACertChain)
	if out.Accepted = err == nil; err != nil {
		out.Reason, out.Unknown = err.Error(), !isUnverified(err)
	}
	return out, nil
}

// Check returns the mistakes in an attestor: a key or certificate that cannot be read, or an invalid expression.
func (v *Verifier) Check(ctx context.Context, by *world.Attestor) error {
	_, err := v.prepare(ctx, by, false)
	return err
}
