package imageverify

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/world"
)

// Plan says who has to sign an image, and which statements have to be there.
type Plan struct {
	Request      world.SignatureRequest // what all requests have in common
	Attestors    []Set
	Attestations []Attestation
}

// Attestation is a statement that has to be there.
type Attestation struct {
	Path string // of the policy's field, such as .attestations[0]
	Type string
	// Attestors have to sign it; where there are none, Otherwise says whose signature counts, and nil that none is required.
	Attestors []Set
	Otherwise *Signer
}

// Set is a set of attestors that is satisfied by as many of its entries as it requires.
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
	Repository string // of its signatures; empty for that of the plan
}

// Registry says how to log in, with what the object logs in with.
func (p *Plan) Registry(login world.ImageRequest) world.ImageRequest {
	r := p.Request.Registry
	r.Object, r.Platform = login.Object, login.Platform
	return r
}

// WithLogin adds what the object of a request logs in with, where it is about Pods.
func WithLogin(r *world.ImageRequest, request *policy.Request, object map[string]any) {
	pod, ok := imageref.PodOf(request.GVK.Kind, object)
	if !ok {
		return
	}
	r.Platform = pod.Platform
	r.Object = world.ObjectSecrets{Namespace: request.Namespace, Names: pod.Secrets, ServiceAccount: pod.ServiceAccount}
}

// Result is how far the entries of a set were satisfied.
type Result struct {
	Verified, Required int
	Unknown            int // entries without an answer, which might be satisfied
	Errors             []error
}

// OK reports whether the set is satisfied.
func (r *Result) OK() bool { return r.Required > 0 && r.Verified >= r.Required }

// refuted reports whether the set would not be satisfied whatever the missing answers are.
func (r *Result) refuted() bool { return r.Verified+r.Unknown < r.Required }

// add counts the check of one entry.
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

// Satisfy evaluates a set: as many entries as it requires have to pass the check. Once they have, no other is asked,
// and what failed before does not count.
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

//lint:ignore ST1005 the reference's words
var errNoEntries = errors.New("An entry is required")

// Yield is the result of a set that is not satisfied: fail when the signatures that were read do not satisfy it, error when that
// depends on what could not be read.
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

// attestation is the result of a set of attestors of statements; none when it is satisfied.
func (r Result) attestation() policy.Yield {
	if r.OK() {
		return policy.Yield{}
	}
	return r.Yield(fmt.Sprintf("image attestations verification failed, verifiedCount: %d, requiredCount: %d, error: ", r.Verified, r.Required))
}
