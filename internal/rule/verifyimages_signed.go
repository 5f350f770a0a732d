package rule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/condition"
	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/scope"
	"github.com/ephor-dev/ephor/internal/world"
)

// imageCheck verifies one image by one entry. Its scope gains the statements that have a name.
type imageCheck struct {
	entry   *imageEntry
	image   *imageref.Image
	scope   *scope.Scope
	plan    *signingPlan
	secrets []string // beside those of the entry
	digest  string   // once it is known, everything else is asked about this digest and not about the tag
}

// signed verifies signatures, then attestations, and returns one result for both with the digest of what was verified.
func (c *imageCheck) signed() (policy.Yield, string) {
	var err error
	if c.plan, err = c.entry.planFor(c.scope); err != nil {
		return failed(textSubstitution, err), ""
	}
	c.digest = c.image.Digest
	for i := range c.plan.attestors {
		r := c.plan.attestors[i].satisfy(c.signature)
		if !r.ok() {
			return r.yield("failed to verify image " + c.image.String() + ": "), ""
		}
	}
	out := policy.Yield{Status: policy.StatusPass, Message: "verified image signatures for " + c.image.String()}
	for i := range c.plan.attestations {
		if y := c.attested(&c.plan.attestations[i], c.entry.conditions[i]); y.Status != policy.StatusNone {
			return y, ""
		}
		out.Message = "verified image attestations for " + c.image.String()
	}
	return out, c.digest
}

// request is the request about one attestor.
func (c *imageCheck) request(e *attestorEntry, kind string) world.SignatureRequest {
	r := c.plan.request
	r.Image = c.image.String()
	if c.digest != "" {
		pinned := c.image.Reference
		pinned.Digest = c.digest
		r.Image = pinned.String()
	}
	r.Type, r.Registry = kind, c.plan.registry(c.secrets)
	if e != nil {
		r.Attestor = e.attestor
		if e.repository != "" {
			r.Repository = e.repository
		}
	}
	return r
}

// signature verifies the signature of one attestor.
func (c *imageCheck) signature(e *attestorEntry) error {
	signatures, err := c.signatures(e)
	if err != nil {
		return err
	}
	digest, err := signatures.Verify(c.context(), c.request(e, ""))
	if err != nil {
		return err
	}
	return c.same(digest)
}

func (c *imageCheck) signatures(e *attestorEntry) (world.Signatures, error) {
	if e != nil && e.attestor == nil {
		return nil, errors.New("keys, certificates, keyless, or a nested attestor is required")
	}
	if s := c.scope.Env.World.Signatures; s != nil {
		return s, nil
	}
	return nil, errVerification
}

func (c *imageCheck) context() context.Context { return c.scope.Env.Meter.Context() }

// same keeps the digest that was verified; two attestors have to speak of the same image.
func (c *imageCheck) same(digest string) error {
	switch {
	case digest == "":
		return errors.New("the verification gave no digest")
	case c.digest != "" && c.digest != digest:
		return &world.UnverifiedError{Reason: "digest mismatch: expected " + c.digest + ", received " + digest}
	}
	c.digest = digest
	return nil
}

// attested verifies the statements of one type: no result when they are there and their conditions hold.
func (c *imageCheck) attested(a *attestationPlan, conditions *condition.Set) policy.Yield {
	if a.kind == "" {
		return policy.Yield{Status: policy.StatusFail, Message: a.path + ": missing type"}
	}
	check := func(e *attestorEntry) error { return c.statement(a, e, conditions) }
	if len(a.attestors) == 0 {
		// No signature of the statements is required.
		r := setResult{required: 1}
		if err := check(nil); err != nil {
			r.errs = append(r.errs, err)
		} else {
			r.verified = 1
		}
		return r.attestation()
	}
	for i := range a.attestors {
		if y := a.attestors[i].satisfy(check).attestation(); y.Status != policy.StatusNone {
			return y
		}
	}
	return policy.Yield{}
}

// statement evaluates the statements that one attestor signed: there has to be one, and all have to satisfy the conditions.
func (c *imageCheck) statement(a *attestationPlan, e *attestorEntry, conditions *condition.Set) error {
	signatures, err := c.signatures(e)
	if err != nil {
		return err
	}
	digest, statements, err := signatures.Statements(c.context(), c.request(e, a.kind))
	if err != nil {
		return err
	}
	found := 0
	scope := c.scope
	for _, st := range statements {
		if st.Type != a.kind {
			continue
		}
		found++
		named := c.scope
		if a.name != "" {
			named = named.With(a.name, st.Predicate)
		}
		scope = named
		if conditions == nil {
			continue
		}
		verdict, err := conditions.Eval(named.Env, withFields(named, st.Predicate))
		if err != nil {
			return fmt.Errorf("failed to check attestations: %w", err)
		}
		if !verdict.OK {
			return &world.UnverifiedError{Reason: "attestation checks failed for " + c.image.String() + " and predicate " + a.kind + ": " + verdict.Message()}
		}
	}
	if found == 0 {
		return &world.UnverifiedError{Reason: "attestations not found for predicate type " + a.kind}
	}
	if err := c.same(digest); err != nil {
		return err
	}
	c.scope = scope
	return nil
}

// withFields defines the fields of a predicate as variables.
func withFields(s *scope.Scope, predicate any) *scope.Scope {
	fields, _ := predicate.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		s = s.With(name, fields[name])
	}
	return s
}

// setResult is how far the entries of a set were satisfied.
type setResult struct {
	verified, required int
	errs               []error
}

func (r *setResult) ok() bool { return r.required > 0 && r.verified >= r.required }

// satisfy evaluates a set: as many entries as it requires have to pass the check. Once they have, no other is asked,
// and what failed before does not count.
func (set *attestorSet) satisfy(check func(*attestorEntry) error) setResult {
	r := setResult{required: set.required}
	if len(set.entries) == 0 {
		r.required, r.errs = 1, []error{fmt.Errorf("%s: %w", set.path, errNoEntries)}
		return r
	}
	for i := range set.entries {
		e := &set.entries[i]
		if e.set != nil {
			if inner := e.set.satisfy(check); !inner.ok() {
				r.errs = append(r.errs, inner.errs...) // their paths are complete
				continue
			}
		} else if err := check(e); err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", e.path, err))
			continue
		}
		if r.verified++; r.verified >= r.required {
			return r
		}
	}
	if len(r.errs) == 0 {
		r.errs = []error{fmt.Errorf("%s: %d of %d required entries are satisfied", set.path, r.verified, r.required)}
	}
	return r
}

//lint:ignore ST1005 the reference's words
var errNoEntries = errors.New("An entry is required")

// yield is the result of a set that is not satisfied: fail when the signatures do not satisfy it, error when that could not
// be found out.
func (r *setResult) yield(prefix string) policy.Yield {
	y := policy.Yield{Status: policy.StatusFail}
	texts := make([]string, len(r.errs))
	for i, err := range r.errs {
		var unverified *world.UnverifiedError
		if !errors.As(err, &unverified) {
			y.Status = policy.StatusError
		}
		texts[i] = err.Error()
	}
	y.Message = prefix + strings.Join(texts, "; ")
	return y
}

// attestation is the result of a set of attestors of statements; none when it is satisfied.
func (r setResult) attestation() policy.Yield {
	if r.ok() {
		return policy.Yield{}
	}
	return r.yield(fmt.Sprintf("image attestations verification failed, verifiedCount: %d, requiredCount: %d, error: ", r.verified, r.required))
}
