package imageverify

import (
	"context"
	"errors"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/world"
)

// Panel counts the authorities that signed an image, for policies whose expressions decide what the number means. It belongs to one
// evaluation, and makes each check once. An inconclusive check is an error, and never "not signed".
type Panel struct {
	World world.World
	// Tags are those of the review. For is the requester for whom answers may be remembered, empty for none.
	Tags *policy.Tags
	For  string
	// Images defines the registry of references without one.
	Images imageref.Defaults
	// Registry holds the credentials.
	Registry world.ImageRequest
	// Trace records the checks and all signatures that were found; nil records nothing.
	Trace *trace.Log

	answers    []policy.Attested
	verified   map[string]bool
	digests    map[string]string // digests of verified images
	statements map[question][]world.Statement
	known      map[question]error
}

// Authority is an attestor in the form that verifiers use.
type Authority struct {
	Name   string
	Format string // Cosign or Notary
	// Forms are alternatives, such as several keys: each is sufficient.
	Forms []*world.Attestor
	// Repository holds its signatures, with TagPrefix before their tags; empty for the image's repository. Secrets are the credentials for
	// it.
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
	Referrer bool // it refers to the image in its registry; otherwise it is an in-toto statement
}

// question identifies a check that a Panel makes only once.
type question struct {
	image     string
	statement Testimony // the zero Testimony: the signature of the image
	authority string    // the authority's name; empty for the first statements that were found
}

// ErrUnattested is the error for reading an in-toto statement that was not verified before.
var ErrUnattested = errors.New("intoto attestation payload cannot be fetch before verifying intoto attestation")

// Signed returns the number of authorities that signed the image.
func (p *Panel) Signed(ctx context.Context, image string, by []Authority) (int, error) {
	return p.count(image, Testimony{}, by, func(a *Authority) error { return p.signature(ctx, image, a) })
}

// Attested returns the number of authorities that signed such a statement about the image. Notary signs referrers, Cosign signs in-toto
// statements; an authority never counts for a statement that its format cannot sign.
func (p *Panel) Attested(ctx context.Context, image string, what Testimony, by []Authority) (int, error) {
	return p.count(image, what, by, func(a *Authority) error {
		if what.Referrer != (a.Format == FormatNotary) {
			return &world.UnverifiedError{Reason: a.Format + " does not sign such attestations"}
		}
		return p.statement(ctx, image, what, a)
	})
}

// Payload returns the content of a statement: a verified in-toto statement, or any referrer of that type.
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

// Payloads returns the contents of all such statements about the image that the authority signed; none if it signed none.
func (p *Panel) Payloads(ctx context.Context, image string, what Testimony, by Authority) ([]any, error) {
	if n, err := p.Attested(ctx, image, what, []Authority{by}); err != nil || n == 0 {
		return []any{}, err
	}
	found := p.statements[question{image, what, by.Name}]
	out := make([]any, len(found))
	for i := range found {
		out[i] = found[i].Document
	}
	return out, nil
}

// Answers returns the answers of the authorities, in the order of the checks.
func (p *Panel) Answers() []policy.Attested { return p.answers }

// Verified returns the checked images, with whether some authority's signature was found.
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

// statement verifies the statements of one authority, and stores them, and the first that any authority has. If a form is nil, it reads statements without
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
		p.statements[question{image, what, a.Name}] = found
		return nil
	})
}

// anyForm checks the forms of an authority until one satisfies.
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
		if p.recordAnswer(&request, a, p.digests[image], failed); failed == nil {
			return nil
		}
		if unverified := (*world.UnverifiedError)(nil); errors.As(err, &unverified) {
			err = failed // an inconclusive check takes precedence over a failed one
		}
	}
	return err
}

// recordAnswer records the answer of one form of an authority. It ignores reads of statements without an attestor.
func (p *Panel) recordAnswer(r *world.SignatureRequest, a *Authority, digest string, err error) {
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

// digest returns the content to which all checks of the image refer. If registries cannot be reached, the first verification sets it.
func (p *Panel) digest(ctx context.Context, image string, parsed imageref.Reference) (string, error) {
	switch known := p.digests[image]; {
	case known != "":
		return known, nil
	case parsed.Digest != "" || p.World.Images.Image == nil || p.Tags == nil:
		return parsed.Digest, nil
	}
	digest, err := Digest(ctx, p.Tags, p.World, parsed.String(), p.Registry)
	if missing := (*world.NoImageError)(nil); errors.As(err, &missing) {
		return "", &world.UnverifiedError{Reason: err.Error()}
	}
	return digest, err
}

// same stores the verified digest: all checks of an image must refer to the same content.
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
