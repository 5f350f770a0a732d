package imageverify

import (
	"errors"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/world"
)

var (
	errVerification = fmt.Errorf("image verification is %w", world.ErrUnavailable)
	errRegistries   = fmt.Errorf("image registries are %w", world.ErrUnavailable)
)

// textPlan begins the message of an entry whose signers are unknown, because their variables cannot be resolved.
const textPlan = "variable substitution failed: "

// textCached is the message if all answers came from the cache.
const textCached = "verified from cache"

// check verifies one image by one entry.
type check struct {
	call     *policy.Call
	image    *target
	language Session
	plan     *Plan
	login    world.ImageRequest // the credentials of the object
	keep     string             // the requester for whom answers may be remembered; empty for none
	asked    int                // the number of answers
	recalled int                // the number of answers that came from the cache
	answers  []policy.Attested
}

// signed verifies signatures, then attestations, and returns one result for both. A failed part takes precedence over an inconclusive one,
// so that an outage does not hide that an image is unsigned.
func (c *check) signed() policy.Yield {
	var err error
	if c.plan, err = c.language.Plan(); err != nil {
		return failed(textPlan, err)
	}
	text := c.image.Pinned()
	prefix := "failed to verify image " + text + ": "
	if err := c.resolve(); err != nil {
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
	case c.asked > 0 && c.recalled == c.asked:
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

// resolve finds the digest of the tag, once for the whole review. All other requests use this digest. If registries cannot be reached, the
// verifier returns the digest that it verified.
func (c *check) resolve() (err error) {
	if c.image.known == "" && c.call.World.Images.Image != nil {
		c.image.known, err = Resolve(c.call, &c.image.Image, c.plan.Registry(c.login))
	}
	return err
}

// request returns the request about one attestor.
func (c *check) request(e *Signer, kind string) (world.SignatureRequest, *bool) {
	r, recalled := c.plan.Request, new(bool)
	named := c.image.Reference
	if c.image.known != "" {
		named.Digest = c.image.known
		r.For, r.Remembered = c.keep, recalled
	}
	r.Image, r.Type, r.Registry = named.String(), kind, c.plan.Registry(c.login)
	if c.call.Request.Trace != nil {
		r.Findings = new([]trace.Signature)
	}
	if e != nil {
		r.Attestor = e.Attestor
		if e.Repository != "" {
			r.Repository = e.Repository
		}
	}
	return r, recalled
}

// answered counts an answer.
func (c *check) answered(recalled *bool) {
	c.asked++
	if *recalled {
		c.recalled++
	}
}

// signature verifies the signature of one attestor.
func (c *check) signature(e *Signer) error {
	signatures, err := c.signatures(e)
	if err != nil {
		return err
	}
	request, recalled := c.request(e, "")
	digest, err := signatures.Verify(c.call.Context(), request)
	if c.answered(recalled); err == nil {
		err = c.same(digest)
	}
	c.recordAnswer(&request, "", e, digest, err)
	return err
}

// recordAnswer records the answer of an attestor, for events, and all signatures that were found, for the trace. If the attestor has no path, path
// is used: that of the part to which it belongs.
func (c *check) recordAnswer(r *world.SignatureRequest, path string, e *Signer, digest string, err error) {
	image := r.Image
	if digest != "" && !strings.Contains(image, "@") {
		image += "@" + digest
	}
	if e != nil && e.Path != "" {
		path = e.Path
	}
	c.answers = append(c.answers, asked(image, path, r.Type, r.Attestor, err))
	if r.Findings != nil {
		c.call.Request.Trace.Attestor(noted(image, path, r.Type, r.Attestor, *r.Findings, err))
	}
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

// same compares the verified digest with the known one: all attestors must refer to the same image.
func (c *check) same(digest string) error {
	switch {
	case digest == "":
		return errors.New("the verification gave no digest")
	case c.image.known != "" && c.image.known != digest:
		return &world.UnverifiedError{Reason: "digest mismatch: expected " + c.image.known + ", received " + digest}
	}
	c.image.known = digest
	return nil
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
	signatures, err := c.signatures(e)
	if err != nil {
		return err
	}
	kind := c.plan.Attestations[i].Type
	request, recalled := c.request(e, kind)
	digest, statements, err := signatures.Statements(c.call.Context(), request)
	if c.answered(recalled); err == nil {
		err = c.examine(i, digest, statements)
	}
	c.recordAnswer(&request, c.plan.Attestations[i].Path, e, digest, err)
	return err
}

// examine evaluates the content of the statements of one attestor.
func (c *check) examine(i int, digest string, statements []world.Statement) error {
	kind := c.plan.Attestations[i].Type
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
