package imageverify

import (
	"errors"
	"fmt"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/world"
)

var (
	errVerification = fmt.Errorf("image verification is %w", world.ErrUnavailable)
	errRegistries   = fmt.Errorf("image registries are %w", world.ErrUnavailable)
)

// textPlan begins the message of an entry whose signers are not known, since their variables cannot be resolved.
const textPlan = "variable substitution failed: "

// check verifies one image by one entry.
type check struct {
	call     *policy.Call
	image    *imageref.Image
	language Session
	plan     *Plan
	secrets  []string // beside those of the plan
	digest   string   // once it is known, everything else is asked about this digest and not about the tag
}

// signed verifies signatures, then attestations, and returns one result for both with the digest of what was verified.
func (c *check) signed() (policy.Yield, string) {
	var err error
	if c.plan, err = c.language.Plan(); err != nil {
		return failed(textPlan, err), ""
	}
	c.digest = c.image.Digest
	for i := range c.plan.Attestors {
		r := c.plan.Attestors[i].Satisfy(c.signature)
		if !r.OK() {
			return r.Yield("failed to verify image " + c.image.String() + ": "), ""
		}
	}
	out := policy.Yield{Status: policy.StatusPass, Message: "verified image signatures for " + c.image.String()}
	for i := range c.plan.Attestations {
		if y := c.attested(i); y.Status != policy.StatusNone {
			return y, ""
		}
		out.Message = "verified image attestations for " + c.image.String()
	}
	return out, c.digest
}

// request is the request about one attestor.
func (c *check) request(e *Signer, kind string) world.SignatureRequest {
	r := c.plan.Request
	r.Image = c.image.String()
	if c.digest != "" {
		pinned := c.image.Reference
		pinned.Digest = c.digest
		r.Image = pinned.String()
	}
	r.Type, r.Registry = kind, c.plan.Registry(c.secrets)
	if e != nil {
		r.Attestor = e.Attestor
		if e.Repository != "" {
			r.Repository = e.Repository
		}
	}
	return r
}

// signature verifies the signature of one attestor.
func (c *check) signature(e *Signer) error {
	signatures, err := c.signatures(e)
	if err != nil {
		return err
	}
	digest, err := signatures.Verify(c.call.Context(), c.request(e, ""))
	if err != nil {
		return err
	}
	return c.same(digest)
}

func (c *check) signatures(e *Signer) (world.Signatures, error) {
	if e != nil && e.Attestor == nil {
		return nil, errors.New("keys, certificates, keyless, or a nested attestor is required")
	}
	if s := c.call.World.Signatures; s != nil {
		return s, nil
	}
	return nil, errVerification
}

// same keeps the digest that was verified; two attestors have to speak of the same image.
func (c *check) same(digest string) error {
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
func (c *check) attested(i int) policy.Yield {
	a := &c.plan.Attestations[i]
	if a.Type == "" {
		return policy.Yield{Status: policy.StatusFail, Message: a.Path + ": missing type"}
	}
	statement := func(e *Signer) error { return c.statement(i, e) }
	if len(a.Attestors) == 0 {
		// No signature of the statements is required.
		r := Result{Required: 1}
		if err := statement(nil); err != nil {
			r.Errors = append(r.Errors, err)
		} else {
			r.Verified = 1
		}
		return r.attestation()
	}
	for j := range a.Attestors {
		if y := a.Attestors[j].Satisfy(statement).attestation(); y.Status != policy.StatusNone {
			return y
		}
	}
	return policy.Yield{}
}

// statement evaluates the statements that one attestor signed: there has to be one, and all have to satisfy the conditions.
func (c *check) statement(i int, e *Signer) error {
	signatures, err := c.signatures(e)
	if err != nil {
		return err
	}
	kind := c.plan.Attestations[i].Type
	digest, statements, err := signatures.Statements(c.call.Context(), c.request(e, kind))
	if err != nil {
		return err
	}
	var found []world.Statement
	for _, st := range statements {
		if st.Type == kind {
			found = append(found, st)
		}
	}
	if len(found) == 0 {
		return &world.UnverifiedError{Reason: "attestations not found for predicate type " + kind}
	}
	use, err := c.language.Examine(i, found)
	if err != nil {
		return err
	}
	if err := c.same(digest); err != nil {
		return err
	}
	use()
	return nil
}
