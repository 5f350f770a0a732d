package rule

import (
	"errors"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// imagePlan defines who must sign an image, and which statements must exist.
type imagePlan struct {
	Request      world.SignatureRequest // the common part of all requests
	Attestors    []attestorSet
	Attestations []imageAttestation
}

// imageAttestation is a required statement.
type imageAttestation struct {
	Path string // of the policy's field, such as .attestations[0]
	Type string
	// Attestors must sign it. If there are none, Otherwise must.
	Attestors []attestorSet
	Otherwise signer
}

// attestorSet is a set of attestors that is satisfied if as many of its entries as it requires are.
type attestorSet struct {
	Path     string
	Required int
	Entries  []signer
}

// signer is one attestor or a nested set.
type signer struct {
	Path       string // .attestors[0].entries[1].keys
	Set        *attestorSet
	Attestor   *world.Attestor
	Repository string // repository of its signatures; empty for that of the plan
}

// registry returns the credentials, with those of the object.
func (p *imagePlan) registry(login *world.ImageRequest) world.ImageRequest {
	r := p.Request.Registry
	r.Object, r.Platform = login.Object, login.Platform
	return r
}

// setResult is the result of checking the entries of a set.
type setResult struct {
	Verified, Required int
	Unknown            int // inconclusive entries, which might be satisfied
	Errors             []error
}

// ok reports whether the set is satisfied.
func (r *setResult) ok() bool { return r.Required > 0 && r.Verified >= r.Required }

// refuted reports whether the set is not satisfied, whatever the inconclusive entries are.
func (r *setResult) refuted() bool { return r.Verified+r.Unknown < r.Required }

// add adds the result of one entry.
func (r *setResult) add(err error) {
	if err == nil {
		r.Verified++
		return
	}
	if unverified := (*world.UnverifiedError)(nil); !errors.As(err, &unverified) {
		r.Unknown++
	}
	r.Errors = append(r.Errors, err)
}

// satisfy evaluates a set: as many entries as it requires must pass the check. Once they have, it checks no more entries, and
// earlier failures do not matter.
func (set *attestorSet) satisfy(check func(*signer) error) setResult {
	r := setResult{Required: set.Required}
	if len(set.Entries) == 0 {
		r.Required, r.Unknown, r.Errors = 1, 1, []error{fmt.Errorf("%s: %w", set.Path, errNoEntries)}
		return r
	}
	for i := range set.Entries {
		e := &set.Entries[i]
		if e.Set != nil {
			switch inner := e.Set.satisfy(check); {
			case inner.ok():
				r.Verified++
			default:
				if !inner.refuted() {
					r.Unknown++
				}
				r.Errors = append(r.Errors, inner.Errors...) // their paths are complete
			}
		} else if err := check(e); err != nil {
			r.add(fmt.Errorf("%s: %w", e.Path, err))
		} else {
			r.Verified++
		}
		if r.ok() {
			return r
		}
	}
	if len(r.Errors) == 0 {
		r.Errors = []error{fmt.Errorf("%s: %d of %d required entries are satisfied", set.Path, r.Verified, r.Required)}
	}
	return r
}

//lint:ignore ST1005 Kyverno's text
var errNoEntries = errors.New("An entry is required")

// yield returns the result for a set that is not satisfied: fail if the signatures that were read do not satisfy it, error if
// that depends on signatures that could not be read.
func (r *setResult) yield(prefix string) policy.Yield {
	y := policy.Yield{Status: policy.StatusError}
	if r.refuted() {
		y.Status = policy.StatusFail
	}
	texts := make([]string, len(r.Errors))
	for i, err := range r.Errors {
		texts[i] = err.Error()
	}
	y.Message = prefix + strings.Join(texts, "; ")
	return y
}

// attestation returns the result for a set of attestors of statements; none if it is satisfied.
func (r setResult) attestation() policy.Yield {
	if r.ok() {
		return policy.Yield{}
	}
	return r.yield(fmt.Sprintf("image attestations verification failed, verifiedCount: %d, requiredCount: %d, error: ", r.Verified, r.Required))
}
