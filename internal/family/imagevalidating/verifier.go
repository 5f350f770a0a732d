package imagevalidating

import (
	"context"
	"errors"
	"slices"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/world"
)

// verifier implements the functions for signatures in one evaluation, with the attestors and attestations of the policy. It counts
// attestors; the expressions decide what the number means. An inconclusive check is an error, and never "not signed".
type verifier struct {
	*evaluator
	checks      imageverify.Verifier
	text        run.TextOf
	authorities map[string]authority
	images      map[string]*imageverify.Image // by their texts
	verified    map[string]bool               // the checked images, with whether some attestor's signature was found
	payloads    map[payload]any               // the first that an attestor signed
}

// payload identifies the content of statements of a kind about an image.
type payload struct {
	image string
	statement
}

var _ env.Verifier = (*verifier)(nil)

// Signed implements env.Verifier.
func (v *verifier) Signed(ctx context.Context, image string, attestors []string) (int, error) {
	return v.count(ctx, image, nil, attestors)
}

// Attested implements env.Verifier.
func (v *verifier) Attested(ctx context.Context, image, attestation string, attestors []string) (int, error) {
	what, err := v.statement(attestation)
	if err != nil {
		return 0, err
	}
	return v.count(ctx, image, &what, attestors)
}

// Payload implements env.Verifier. It returns the content of a verified in-toto statement, or of any referrer of that kind.
func (v *verifier) Payload(ctx context.Context, image, attestation string) (any, error) {
	what, err := v.statement(attestation)
	if err != nil {
		return nil, err
	}
	if known, signed := v.payloads[payload{image, what}]; signed {
		return known, nil
	}
	if !what.referrer {
		return nil, &env.MistakeError{Reason: "failed to get payload: intoto attestation payload cannot be fetch before verifying intoto attestation"}
	}
	anyone := authority{request: world.SignatureRequest{Format: imageverify.FormatNotary}, forms: []*world.Attestor{nil}}
	all, err := v.check(ctx, image, &what, &anyone)
	if err != nil {
		return nil, err
	}
	return all[0].Document, nil
}

// Payloads implements env.Verifier.
func (v *verifier) Payloads(ctx context.Context, image, attestation, attestor string) ([]any, error) {
	out := []any{}
	if n, err := v.Attested(ctx, image, attestation, []string{attestor}); err != nil || n == 0 {
		return out, err
	}
	what, by := v.attestations[attestation], v.authorities[attestor]
	all, err := v.check(ctx, image, &what, &by) // it was just made
	for i := range all {
		out = append(out, all[i].Document)
	}
	return out, err
}

func (v *verifier) statement(attestation string) (statement, error) {
	what, known := v.attestations[attestation]
	if !known {
		return what, &env.MistakeError{Reason: "attestation not found in policy: " + attestation}
	}
	return what, nil
}

// count returns how many of the attestors signed the image, or such a statement about it; none if matchImageReferences do not select the
// image. Notary signs referrers, Cosign signs in-toto statements; an attestor never counts for a statement that its format cannot sign.
func (v *verifier) count(ctx context.Context, image string, what *statement, attestors []string) (n int, err error) {
	call := v.checks.Call
	if selected, err := v.references.selects(ctx, call.Meter, call.Images, image); err != nil || !selected {
		return 0, err
	}
	if v.verified == nil {
		v.authorities, v.verified, v.payloads = map[string]authority{}, map[string]bool{}, map[payload]any{}
	}
	by := make([]authority, len(attestors))
	for i, name := range attestors {
		if by[i], err = v.authority(name); err != nil {
			return 0, err
		}
	}
	for i := range by {
		if what != nil && what.referrer != (by[i].request.Format == imageverify.FormatNotary) {
			continue
		}
		all, err := v.check(ctx, image, what, &by[i])
		if unverified := (*world.UnverifiedError)(nil); errors.As(err, &unverified) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n++; what == nil {
			continue
		}
		at := payload{image, *what}
		if _, before := v.payloads[at]; !before {
			v.payloads[at] = all[0].Document
		}
	}
	v.verified[image] = v.verified[image] || n > 0
	return n, nil
}

// authority returns the attestor with this name.
func (v *verifier) authority(name string) (authority, error) {
	if a, made := v.authorities[name]; made {
		return a, nil
	}
	of := v.attestors[name]
	if of == nil {
		return authority{}, &env.MistakeError{Reason: "attestor not found in policy: " + name}
	}
	a, err := of(v.text)
	if err == nil {
		v.authorities[name] = a
	}
	return a, err
}

// image returns what is known about an image.
func (v *verifier) image(text string) (*imageverify.Image, error) {
	if known := v.images[text]; known != nil {
		return known, nil
	}
	parsed, err := v.checks.Call.Images.Parse(text)
	if err != nil {
		return nil, err
	}
	if v.images == nil {
		v.images = map[string]*imageverify.Image{}
	}
	made := imageverify.NewImage(imageref.Image{Reference: parsed})
	v.images[text] = &made
	return &made, nil
}

// check checks the forms of an authority until one satisfies, and returns its statements. An inconclusive check takes precedence over a
// failed one.
func (v *verifier) check(ctx context.Context, text string, what *statement, a *authority) ([]world.Statement, error) {
	image, err := v.image(text)
	if err != nil {
		return nil, err
	}
	var all []world.Statement
	var examine func([]world.Statement) error
	if what != nil {
		examine = func(found []world.Statement) error {
			if all = found; len(found) == 0 {
				return &world.UnverifiedError{Reason: "no matching attestations found for image " + text + " with type " + what.kind}
			}
			return nil
		}
	}
	err = &world.UnverifiedError{Reason: "attestor " + a.name + " has no key, certificate or identity"}
	for _, form := range a.forms {
		r := a.request
		r.Attestor, r.Registry = form, v.checks.Registry
		r.Registry.Secrets = slices.Concat(r.Registry.Secrets, a.request.Registry.Secrets)
		if what != nil {
			r.Type = what.kind
		}
		failed := v.checks.Verify(ctx, image, "attestors."+a.name, r, examine)
		if failed == nil {
			return all, nil
		}
		if unverified := (*world.UnverifiedError)(nil); errors.As(err, &unverified) {
			err = failed
		}
	}
	return nil, err
}
