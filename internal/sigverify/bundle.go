package sigverify

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"ephor.invalid/ephor/internal/certificate"
)

// Artifact types of referrers of an image.
const (
	typeBundle    = "application/vnd.dev.sigstore.bundle" // followed by a version
	typeSignature = "application/vnd.dev.cosign.artifact.sig.v1+json"
	typeNotary    = "application/vnd.cncf.notary.signature"
	// typeUnknown is the type that a registry reports if it reads the configuration instead of the artifact type.
	typeUnknown = "application/vnd.oci.empty.v1+json"

	notePredicate = "dev.sigstore.bundle.predicateType"
	noteContent   = "dev.sigstore.bundle.content"

	predicateSign = "https://sigstore.dev/cosign/sign/v1"
)

// signatureReferrers returns the referrers that may hold a signature of the image. Only the content of a bundle shows whether it is one, so
// those that declare a signature come first.
func (i *image) signatureReferrers(ctx context.Context, bundlesOnly bool) ([]referrer, error) {
	all, err := i.referrers(ctx)
	if err != nil {
		return nil, err
	}
	rank := func(r referrer) int {
		switch {
		case r.kind == typeSignature, r.Annotations[notePredicate] == predicateSign, r.Annotations[noteContent] == "message-signature":
			return 0
		case r.Annotations[notePredicate] == "":
			return 1
		}
		return 2
	}
	var out []referrer
	for _, r := range all {
		if strings.HasPrefix(r.kind, typeBundle) || r.kind == typeSignature && !bundlesOnly {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b referrer) int { return rank(a) - rank(b) })
	if len(out) == 0 {
		out = untyped(all)
	}
	return out, tooMany(out)
}

// statementReferrers returns the referrers that may hold a statement of the type.
func (i *image) statementReferrers(ctx context.Context, kind string) ([]referrer, error) {
	all, err := i.referrers(ctx)
	if err != nil {
		return nil, err
	}
	var out []referrer
	for _, r := range all {
		if strings.HasPrefix(r.kind, typeBundle) && (r.Annotations[notePredicate] == "" || r.Annotations[notePredicate] == kind) {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		out = untyped(all)
	}
	return out, tooMany(out)
}

// untyped returns the referrers whose type is only known from their own manifests.
func untyped(all []referrer) (out []referrer) {
	for _, r := range all {
		if r.kind == typeUnknown {
			out = append(out, r)
		}
	}
	return out
}

func tooMany(found []referrer) error {
	if len(found) > maxSignatures {
		return fmt.Errorf("too many referrers found, max limit is %d", maxSignatures)
	}
	return nil
}

// referred reads the signatures in a referrer. If a signature cannot be verified, its artefact is broken.
func (i *image) referred(ctx context.Context, r referrer) ([]*artefact, error) {
	return i.artefacts.Get(ctx, r.Digest.String(), func(ctx context.Context) ([]*artefact, error) {
		m, err := i.attached(ctx, r, i.digest)
		if err != nil && !isUnverified(err) {
			return nil, err
		}
		if err == nil && r.kind == typeUnknown && !strings.HasPrefix(m.ArtifactType, typeBundle) {
			return nil, nil
		}
		if err == nil && r.kind == typeSignature {
			return i.simple(r.Digest.String(), m)
		}
		a := &artefact{place: r.Digest.String(), bundle: true}
		if err == nil {
			err = i.counts.add(a.place, 1)
		}
		if err == nil {
			err = i.read(ctx, m, a)
		}
		if err != nil && !isUnverified(err) {
			return nil, err
		}
		a.broken = err
		return []*artefact{a}, nil
	})
}

// read reads the bundle in the first layer of a manifest.
func (i *image) read(ctx context.Context, m *v1.Manifest, a *artefact) error {
	if len(m.Layers) == 0 {
		return unverified("the bundle has no layer")
	}
	blob, err := i.blob(ctx, m.Layers[0], maxStatement)
	if err != nil {
		return err
	}
	if err := a.parseBundle(blob); err != nil {
		return unverified("the bundle cannot be read: %s", err)
	}
	return nil
}

// parseBundle parses a bundle of any version.
func (a *artefact) parseBundle(text []byte) error {
	var message protobundle.Bundle
	if err := protojson.Unmarshal(text, &message); err != nil {
		return err
	}
	for _, e := range message.GetVerificationMaterial().GetTlogEntries() {
		if err := checkEntry(e.GetCanonicalizedBody()); err != nil {
			return err
		}
	}
	b, err := bundle.NewBundle(&message)
	if err != nil {
		return err
	}
	switch c := b.GetVerificationMaterial().GetContent().(type) {
	case *protobundle.VerificationMaterial_PublicKey:
		a.hint = c.PublicKey.GetHint()
	case *protobundle.VerificationMaterial_Certificate:
		a.cert, err = certificate.Parse(c.Certificate.GetRawBytes())
	case *protobundle.VerificationMaterial_X509CertificateChain:
		certs := c.X509CertificateChain.GetCertificates()
		if len(certs) == 0 || len(certs) > maxChain {
			return fmt.Errorf("it has %d certificates, allowed are 1 to %d", len(certs), maxChain)
		}
		for n := range certs {
			cert, err := certificate.Parse(certs[n].GetRawBytes())
			if err != nil {
				return err
			}
			switch {
			case n == 0:
				a.cert = cert
			case bytes.Equal(cert.RawSubject, cert.RawIssuer):
				return fmt.Errorf("its chain contains the root %q: roots must come from the trusted material", cert.Subject)
			default:
				a.chain = append(a.chain, cert)
			}
		}
	}
	if err != nil {
		return err
	}
	if a.entries, err = b.TlogEntries(); err != nil {
		return err
	}
	if a.stamps, err = b.Timestamps(); err != nil {
		return err
	}
	content, err := b.SignatureContent()
	if err != nil {
		return err
	}
	switch c := content.(type) {
	case *bundle.MessageSignature:
		a.message, a.signature = c, c.Signature()
	case *bundle.Envelope:
		var payload []byte
		a.envelope = c.Envelope
		if payload, a.signature, err = single(a.envelope); err != nil {
			return err
		}
		if a.statement, err = parseStatement(a.envelope.PayloadType, payload); err != nil {
			return err
		}
	}
	a.stamped = a.signature
	return nil
}

// each calls a function for 0 to n-1, some calls at a time, and returns the results in order.
func each[T any](ctx context.Context, n int, f func(context.Context, int) (T, error)) ([]T, error) {
	out := make([]T, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for k := range n {
		g.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			out[k], err = f(ctx, k)
			return err
		})
	}
	return out, g.Wait()
}
