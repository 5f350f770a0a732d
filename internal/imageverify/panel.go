package imageverify

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/trace"
	"github.com/ephor-dev/ephor/internal/world"
)

// Panel counts the authorities whose signature an image has, for policies whose expressions decide what the number means. It belongs to
// one evaluation, and asks each question once. A question without an answer is an error, and never "not signed".
type Panel struct {
	World world.World
	// Tags are those of the review; For says on whose behalf answers may be remembered, empty for none.
	Tags *policy.Tags
	For  string
	// Images says what a reference without a registry means.
	Images imageref.Defaults
	// Registry says how to log in.
	Registry world.ImageRequest
	// Trace receives what was asked, and all signatures that were found; nil records nothing.
	Trace *trace.Log

	answers    []policy.Attested
	verified   map[string]bool
	digests    map[string]string // of images that were verified
	statements map[question][]world.Statement
	known      map[question]error
}

// Authority is an attestor in the form that verifiers know.
type Authority struct {
	Name   string
	Format string // Cosign or Notary
	// Forms satisfy one as well as the other, such as several keys.
	Forms []*world.Attestor
	// Repository holds its signatures, with TagPrefix before their tags; empty for that of the image. Secrets are for logging in there.
	Repository, TagPrefix string
	Secrets               []string
}

// Formats of signatures.
const (
	FormatCosign = "Cosign"
	FormatNotary = "Notary"
)

// Testimony is a kind of statement about an image.
type Testimony struct {
	Type     string
	Referrer bool // it refers to the image in its registry; else it is an in-toto statement
}

// question is what a Panel asks only once.
type question struct {
	image     string
	statement Testimony // the zero Testimony: the signature of the image
	authority string    // by name; empty for the statements that were found
}

// ErrUnattested is for reading an in-toto statement that was not verified before.
var ErrUnattested = errors.New("intoto attestation payload cannot be fetch before verifying intoto attestation")

// Signed counts the authorities that signed the image.
func (p *Panel) Signed(ctx context.Context, image string, by []Authority) (int, error) {
	return p.count(image, Testimony{}, by, func(a *Authority) error { return p.signature(ctx, image, a) })
}

// Attested counts the authorities that signed such a statement about the image. Notary signs what refers to images, Cosign in-toto statements:
// what an authority cannot sign it has not signed.
func (p *Panel) Attested(ctx context.Context, image string, what Testimony, by []Authority) (int, error) {
	return p.count(image, what, by, func(a *Authority) error {
		if what.Referrer != (a.Format == FormatNotary) {
			return &world.UnverifiedError{Reason: a.Format + " does not sign such attestations"}
		}
		return p.statement(ctx, image, what, a)
	})
}

// Payload is what a statement says: one that was verified, or of those that refer to the image any.
func (p *Panel) Payload(ctx context.Context, image string, what Testimony) (any, error) {
	at := question{image: image, statement: what}
	if known := p.statements[at]; len(known) > 0 {
		return known[0].Document, nil
	}
	if !what.Referrer {
		return nil, ErrUnattested
	}
	if err := p.statement(ctx, image, what, &Authority{Format: FormatNotary, Forms: []*world.Attestor{nil}}); err != nil {
		return nil, err
	}
	return p.statements[at][0].Document, nil
}

// Answers are what the authorities said, in the order in which they were asked.
func (p *Panel) Answers() []policy.Attested { return p.answers }

// Verified returns the images that were asked about, with whether some authority's signature was found.
func (p *Panel) Verified() map[string]bool { return p.verified }

func (p *Panel) count(image string, what Testimony, by []Authority, verify func(*Authority) error) (n int, err error) {
	for i := range by {
		at := question{image, what, by[i].Name}
		err, known := p.known[at]
		if !known {
			if err = verify(&by[i]); p.known == nil {
				p.known = map[question]error{}
			}
			p.known[at] = err
		}
		if unverified := (*world.UnverifiedError)(nil); err != nil && !errors.As(err, &unverified) {
			return 0, err
		}
		if err == nil {
			n++
		}
	}
	if p.verified == nil {
		p.verified = map[string]bool{}
	}
	p.verified[image] = p.verified[image] || n > 0
	return n, nil
}

// signature verifies the signature of one authority.
func (p *Panel) signature(ctx context.Context, image string, a *Authority) error {
	return p.anyForm(ctx, image, "", a, func(verifier world.Signatures, r world.SignatureRequest) error {
		digest, err := verifier.Verify(ctx, r)
		if err != nil {
			return err
		}
		return p.same(image, digest)
	})
}

// statement verifies the statements of one authority, and keeps the first that it finds. With a form that is nil it reads statements without
// verifying them.
func (p *Panel) statement(ctx context.Context, image string, what Testimony, a *Authority) error {
	at := question{image: image, statement: what}
	return p.anyForm(ctx, image, what.Type, a, func(verifier world.Signatures, r world.SignatureRequest) error {
		digest, found, err := verifier.Statements(ctx, r)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return &world.UnverifiedError{Reason: "no matching attestations found for image " + image + " with type " + what.Type}
		}
		if err := p.same(image, digest); err != nil {
			return err
		}
		if p.statements == nil {
			p.statements = map[question][]world.Statement{}
		}
		if p.statements[at] == nil {
			p.statements[at] = found
		}
		return nil
	})
}

// anyForm asks about the forms of an authority until one satisfies.
func (p *Panel) anyForm(ctx context.Context, image, kind string, a *Authority, ask func(world.Signatures, world.SignatureRequest) error) error {
	if p.World.Signatures == nil {
		return errVerification
	}
	parsed, err := p.Images.Parse(image)
	if err != nil {
		return err
	}
	digest, err := p.digest(ctx, image, parsed)
	if err != nil {
		return err
	}
	remember := ""
	if digest != "" {
		parsed.Digest, remember = digest, p.For
	}
	registry := p.Registry
	registry.Secrets = slices.Concat(registry.Secrets, a.Secrets)
	err = &world.UnverifiedError{Reason: "attestor " + a.Name + " has no key, certificate or identity"}
	for _, form := range a.Forms {
		request := world.SignatureRequest{
			Image: parsed.String(), Format: a.Format, Attestor: form, Type: kind, Repository: a.Repository, TagPrefix: a.TagPrefix, Registry: registry, For: remember,
		}
		if p.Trace != nil {
			request.Findings = new([]trace.Signature)
		}
		failed := ask(p.World.Signatures, request)
		if p.note(&request, a, p.digests[image], failed); failed == nil {
			return nil
		}
		if unverified := (*world.UnverifiedError)(nil); errors.As(err, &unverified) {
			err = failed // an unanswered question counts more than what does not satisfy
		}
	}
	return err
}

// note keeps the answer of one form of an authority. Reading statements without an attestor is no question.
func (p *Panel) note(r *world.SignatureRequest, a *Authority, digest string, err error) {
	if r.Attestor == nil {
		return
	}
	image, path := r.Image, "attestors."+a.Name
	if digest != "" && !strings.Contains(image, "@") {
		image += "@" + digest
	}
	p.answers = append(p.answers, asked(image, path, r.Type, r.Attestor, err))
	if r.Findings != nil {
		p.Trace.Attestor(noted(image, path, r.Type, r.Attestor, *r.Findings, err))
	}
}

// digest is the content that all questions about the image are about. Where registries cannot be asked, the first verification says which.
func (p *Panel) digest(ctx context.Context, image string, parsed imageref.Reference) (string, error) {
	switch known := p.digests[image]; {
	case known != "":
		return known, nil
	case parsed.Digest != "" || p.World.Images == nil || p.Tags == nil:
		return parsed.Digest, nil
	}
	digest, err := Digest(ctx, p.Tags, p.World, parsed.String(), p.Registry)
	if missing := (*world.NoImageError)(nil); errors.As(err, &missing) {
		return "", &world.UnverifiedError{Reason: err.Error()}
	}
	return digest, err
}

// same keeps the digest that was verified: all questions about an image are about one content.
func (p *Panel) same(image, digest string) error {
	known := p.digests[image]
	switch {
	case digest == "":
		return errors.New("the verification gave no digest")
	case known != "" && known != digest:
		return &world.UnverifiedError{Reason: "digest mismatch: expected " + known + ", received " + digest}
	}
	if p.digests == nil {
		p.digests = map[string]string{}
	}
	p.digests[image] = digest
	return nil
}
