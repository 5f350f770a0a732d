package imageverify

import (
	"errors"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Plan defines who must sign an image, and which statements must exist.
type Plan struct {
	Request      world.SignatureRequest // the common part of all requests
	Attestors    []Set
	Attestations []Attestation
}

// Attestation is a required statement.
type Attestation struct {
	Path string // of the policy's field, such as .attestations[0]
	Type string
	// Attestors must sign it. If there are none, Otherwise lists the accepted signers; if that is nil, no signature is required.
	Attestors []Set
	Otherwise *Signer
}

// Set is a set of attestors that is satisfied if as many of its entries as it requires are.
type Set struct {
	Path     string
	Required int
	Entries  []Signer
}

// Signer is one attestor or a nested set.
type Signer struct {
	Path       string // .attestors[0].entries[1].keys
	Set        *Set
	Attestor   *world.Attestor
	Repository string // repository of its signatures; empty for that of the plan
}

// Registry returns the credentials, with those of the object.
func (p *Plan) Registry(login world.ImageRequest) world.ImageRequest {
	r := p.Request.Registry
	r.Object, r.Platform = login.Object, login.Platform
	return r
}

// WithLogin adds the credentials of the request's object, if it has Pods.
func WithLogin(r *world.ImageRequest, request *policy.Request, object map[string]any) {
	pod, ok := imageref.PodOf(request.GVK.Kind, object)
	if !ok {
		return
	}
	r.Platform = pod.Platform
	r.Object = world.ObjectSecrets{Namespace: request.Namespace, Names: pod.Secrets, ServiceAccount: pod.ServiceAccount}
}

// Result is the result of checking the entries of a set.
type Result struct {
	Verified, Required int
	Unknown            int // inconclusive entries, which might be satisfied
	Errors             []error
}

// OK reports whether the set is satisfied.
func (r *Result) OK() bool { return r.Required > 0 && r.Verified >= r.Required }

// refuted reports whether the set is not satisfied, whatever the inconclusive entries are.
func (r *Result) refuted() bool { return r.Verified+r.Unknown < r.Required }

// add adds the result of one entry.
func (r *Result) add(err error) {
	if err == nil {
		r.Verified++
		return
	}
	if unverified := (*world.UnverifiedError)(nil); !errors.As(err, &unverified) {
		r.Unknown++
	}
	r.Errors = append(r.Errors, err)
}

// Satisfy evaluates a set: as many entries as it requires must pass the check. Once they have, it checks no more entries, and
// earlier failures do not matter.
func (set *Set) Satisfy(check func(*Signer) error) Result {
	r := Result{Required: set.Required}
	if len(set.Entries) == 0 {
		r.Required, r.Unknown, r.Errors = 1, 1, []error{fmt.Errorf("%s: %w", set.Path, errNoEntries)}
		return r
	}
	for i := range set.Entries {
		e := &set.Entries[i]
		if e.Set != nil {
			switch inner := e.Set.Satisfy(check); {
			case inner.OK():
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
		if r.OK() {
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

// Yield returns the result for a set that is not satisfied: fail if the signatures that were read do not satisfy it, error if
// that depends on signatures that could not be read.
func (r *Result) Yield(prefix string) policy.Yield {
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
func (r Result) attestation() policy.Yield {
	if r.OK() {
		return policy.Yield{}
	}
	return r.Yield(fmt.Sprintf("image attestations verification failed, verifiedCount: %d, requiredCount: %d, error: ", r.Verified, r.Required))
}
