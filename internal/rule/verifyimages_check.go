package rule

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/world"
)

// textPlan begins the message of an entry whose signers are unknown, because their variables cannot be resolved.
const textPlan = "variable substitution failed: "

// textCached is the message if all answers came from the cache.
const textCached = "verified from cache"

// imageCheck verifies one image by one entry.
type imageCheck struct {
	imageverify.Verifier
	entry *imageEntry
	image *imageTarget
	scope *scope.Scope        // statements that were verified extend it by their names
	login *world.ImageRequest // the credentials of the object
	plan  *imagePlan
}

// begin computes who must sign the image.
func (c *imageCheck) begin() (err error) {
	if c.plan == nil {
		if c.plan, err = c.entry.planFor(c.scope); err == nil {
			c.Registry = c.plan.registry(c.login)
		}
	}
	return err
}

// pin adds the digest to the tag: the verified one, if the entry verifies.
func (c *imageCheck) pin(object map[string]any) (map[string]any, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	return c.Pin(object, &c.image.Image)
}

// signed verifies signatures, then attestations, and returns one result for both. A failed part takes precedence over an inconclusive one,
// so that an outage does not hide that an image is unsigned.
func (c *imageCheck) signed() policy.Yield {
	if err := c.begin(); err != nil {
		return failed(textPlan, err)
	}
	text := c.image.Pinned()
	prefix := "failed to verify image " + text + ": "
	if err := c.Find(c.Call.Context(), &c.image.Image); err != nil {
		return unverified(prefix, err)
	}
	unknown := policy.Yield{}
	for i := range c.plan.Attestors {
		if r := c.plan.Attestors[i].satisfy(c.signature); !r.ok() {
			if unknown = worse(unknown, r.yield(prefix)); unknown.Status == policy.StatusFail {
				return unknown
			}
		}
	}
	for i := range c.plan.Attestations {
		if unknown = worse(unknown, c.attested(i)); unknown.Status == policy.StatusFail {
			return unknown
		}
	}
	out := policy.Yield{Status: policy.StatusPass, Message: "verified image signatures for " + text}
	switch {
	case unknown.Status != policy.StatusNone:
		return unknown
	case c.Recalled():
		out.Message = textCached
	case len(c.plan.Attestations) > 0:
		out.Message = "verified image attestations for " + text
	}
	return out
}

// worse returns the result that takes precedence: a failure, otherwise the first error.
func worse(a, b policy.Yield) policy.Yield {
	if a.Status == policy.StatusNone || b.Status == policy.StatusFail {
		return b
	}
	return a
}

// unverified returns the result for an image that the registry did not return: fail if it does not exist, error if the registry did not
// answer.
func unverified(prefix string, err error) policy.Yield {
	y := failed(prefix, err)
	if missing := (*world.NoImageError)(nil); errors.As(err, &missing) {
		y.Status = policy.StatusFail
	}
	return y
}

// signature verifies the signature of one attestor.
func (c *imageCheck) signature(e *signer) error { return c.askSigner(e, "", "", nil) }

// askSigner asks about one attestor. If it has no path, path is used: that of the part to which it belongs.
func (c *imageCheck) askSigner(e *signer, path, kind string, examine func([]world.Statement) error) error {
	r := c.plan.Request
	r.Type, r.Registry = kind, c.Registry
	if r.Attestor = e.Attestor; e.Attestor == nil {
		return errors.New("keys, certificates, keyless, or a nested attestor is required")
	}
	r.Repository = cmp.Or(e.Repository, r.Repository)
	return c.Verify(c.Call.Context(), &c.image.Image, cmp.Or(e.Path, path), r, examine)
}

// attested verifies the statements of one type. It returns no result if they exist and their conditions hold.
func (c *imageCheck) attested(i int) policy.Yield {
	a := &c.plan.Attestations[i]
	if a.Type == "" {
		return policy.Yield{Status: policy.StatusFail, Message: a.Path + ": missing type"}
	}
	statement := func(e *signer) error { return c.statement(i, e) }
	if len(a.Attestors) == 0 {
		r := setResult{Required: 1}
		r.add(statement(&a.Otherwise))
		return r.attestation()
	}
	out := policy.Yield{}
	for j := range a.Attestors {
		r := a.Attestors[j].satisfy(statement)
		out = worse(out, r.attestation())
	}
	return out
}

// statement evaluates the statements that one attestor signed: there must be at least one, and all must satisfy the conditions.
func (c *imageCheck) statement(i int, e *signer) error {
	a := &c.plan.Attestations[i]
	var named *scope.Scope
	err := c.askSigner(e, a.Path, a.Type, func(statements []world.Statement) (err error) {
		var found []world.Statement
		for _, st := range statements {
			if st.Type == a.Type {
				found = append(found, st)
			}
		}
		if len(found) == 0 {
			return &world.UnverifiedError{Reason: "attestations not found for predicate type " + a.Type}
		}
		named, err = c.examine(i, found)
		return err
	})
	if err == nil {
		c.scope = named
	}
	return err
}

// examine evaluates the conditions of an attestation, which all statements must satisfy, and returns the scope with the last one by its
// name.
func (c *imageCheck) examine(i int, statements []world.Statement) (*scope.Scope, error) {
	name, conditions := c.entry.names[i], c.entry.conditions[i]
	named := c.scope
	for _, st := range statements {
		if name != "" {
			named = c.scope.With(name, st.Predicate)
		}
		if conditions == nil {
			continue
		}
		verdict, err := conditions.Eval(named.QueryEnv(), withFields(named, st.Predicate))
		if err != nil {
			return nil, fmt.Errorf("failed to check attestations: %w", err)
		}
		if !verdict.OK {
			return nil, &world.UnverifiedError{Reason: "attestation checks failed for " + c.image.Pinned() + " and predicate " + st.Type + ": " + verdict.Message()}
		}
	}
	return named, nil
}

// withFields defines the fields of a predicate as variables.
func withFields(s *scope.Scope, predicate any) *scope.Scope {
	fields, _ := predicate.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		s = s.With(name, fields[name])
	}
	return s
}
