package imageverify

import (
	"cmp"
	"errors"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// textPlan begins the message of an entry whose signers are unknown, because their variables cannot be resolved.
const textPlan = "variable substitution failed: "

// textCached is the message if all answers came from the cache.
const textCached = "verified from cache"

// check verifies one image by one entry.
type check struct {
	Verifier
	image    *target
	language Session
	plan     *Plan
}

// signed verifies signatures, then attestations, and returns one result for both. A failed part takes precedence over an inconclusive one,
// so that an outage does not hide that an image is unsigned.
func (c *check) signed(login world.ImageRequest) policy.Yield {
	var err error
	if c.plan, err = c.language.Plan(); err != nil {
		return failed(textPlan, err)
	}
	c.Registry = c.plan.Registry(login)
	text := c.image.Pinned()
	prefix := "failed to verify image " + text + ": "
	if err := c.Find(c.Call.Context(), &c.image.Image); err != nil {
		return unverified(prefix, err)
	}
	unknown := policy.Yield{}
	for i := range c.plan.Attestors {
		if r := c.plan.Attestors[i].Satisfy(c.signature); !r.OK() {
			if unknown = worse(unknown, r.Yield(prefix)); unknown.Status == policy.StatusFail {
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
func (c *check) signature(e *Signer) error { return c.askSigner(e, "", "", nil) }

// askSigner asks about one attestor. If it has no path, path is used: that of the part to which it belongs.
func (c *check) askSigner(e *Signer, path, kind string, examine func([]world.Statement) error) error {
	r := c.plan.Request
	r.Type, r.Registry = kind, c.Registry
	if e != nil {
		if e.Attestor == nil {
			return errors.New("keys, certificates, keyless, or a nested attestor is required")
		}
		r.Attestor = e.Attestor
		r.Repository = cmp.Or(e.Repository, r.Repository)
		path = cmp.Or(e.Path, path)
	}
	return c.Verify(c.Call.Context(), &c.image.Image, path, r, examine)
}

// attested verifies the statements of one type. It returns no result if they exist and their conditions hold.
func (c *check) attested(i int) policy.Yield {
	a := &c.plan.Attestations[i]
	if a.Type == "" {
		return policy.Yield{Status: policy.StatusFail, Message: a.Path + ": missing type"}
	}
	statement := func(e *Signer) error { return c.statement(i, e) }
	if len(a.Attestors) == 0 {
		r := Result{Required: 1}
		r.add(statement(a.Otherwise))
		return r.attestation()
	}
	out := policy.Yield{}
	for j := range a.Attestors {
		r := a.Attestors[j].Satisfy(statement)
		out = worse(out, r.attestation())
	}
	return out
}

// statement evaluates the statements that one attestor signed: there must be at least one, and all must satisfy the conditions.
func (c *check) statement(i int, e *Signer) error {
	a := &c.plan.Attestations[i]
	var use func()
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
		use, err = c.language.Examine(i, found)
		return err
	})
	if err == nil {
		use()
	}
	return err
}
