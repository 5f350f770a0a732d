package imagevalidating

import (
	"context"
	"errors"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/imageverify"
)

// verifier implements the functions for signatures in one evaluation, with the attestors and attestations of the policy.
type verifier struct {
	*evaluator
	meter       *budget.Meter
	panel       *imageverify.Panel
	authorities map[string]imageverify.Authority
	text        run.TextOf
}

var _ env.Verifier = (*verifier)(nil)

// Signed implements env.Verifier.
func (v *verifier) Signed(ctx context.Context, image string, attestors []string) (int, error) {
	by, err := v.about(ctx, image, attestors)
	if err != nil || by == nil {
		return 0, err
	}
	return v.panel.Signed(ctx, image, by)
}

// Attested implements env.Verifier.
func (v *verifier) Attested(ctx context.Context, image, attestation string, attestors []string) (int, error) {
	what, known := v.attestations[attestation]
	if !known {
		return 0, noAttestation(attestation)
	}
	by, err := v.about(ctx, image, attestors)
	if err != nil || by == nil {
		return 0, err
	}
	return v.panel.Attested(ctx, image, what, by)
}

// Payload implements env.Verifier.
func (v *verifier) Payload(ctx context.Context, image, attestation string) (any, error) {
	what, known := v.attestations[attestation]
	if !known {
		return nil, noAttestation(attestation)
	}
	payload, err := v.panel.Payload(ctx, image, what)
	if errors.Is(err, imageverify.ErrUnattested) {
		return nil, &env.MistakeError{Reason: "failed to get payload: " + err.Error()}
	}
	return payload, err
}

// Payloads implements env.Verifier.
func (v *verifier) Payloads(ctx context.Context, image, attestation, attestor string) ([]any, error) {
	what, known := v.attestations[attestation]
	if !known {
		return nil, noAttestation(attestation)
	}
	by, err := v.about(ctx, image, []string{attestor})
	if err != nil || by == nil {
		return []any{}, err
	}
	return v.panel.Payloads(ctx, image, what, by[0])
}

func noAttestation(name string) error {
	return &env.MistakeError{Reason: "attestation not found in policy: " + name}
}

// about returns the authorities with these names, or nil if matchImageReferences do not select the image.
func (v *verifier) about(ctx context.Context, image string, attestors []string) ([]imageverify.Authority, error) {
	selected, err := v.references.selects(ctx, v.meter, v.panel.Images, image)
	if err != nil || !selected {
		return nil, err
	}
	out := make([]imageverify.Authority, 0, len(attestors))
	for _, name := range attestors {
		a, made := v.authorities[name]
		if !made {
			of := v.attestors[name]
			if of == nil {
				return nil, &env.MistakeError{Reason: "attestor not found in policy: " + name}
			}
			if a, err = of(v.text); err != nil {
				return nil, err
			}
			if v.authorities == nil {
				v.authorities = map[string]imageverify.Authority{}
			}
			v.authorities[name] = a
		}
		out = append(out, a)
	}
	return out, nil
}
