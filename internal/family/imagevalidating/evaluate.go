package imagevalidating

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// These texts are Kyverno's, verbatim.
const (
	textPassed     = "success"
	textFailed     = "failed to evaluate policy: "
	textNoDigest   = "image %s does not have a digest"
	textUnsigned   = "image %s failed signature or attestation verification"
	textUnverified = "image %s is not verified: no policy performed a signature or attestation check on it"
)

// evaluator evaluates a spec.
type evaluator struct {
	rule         *celrule.Rule
	subject      *celpolicy.Subject
	json         bool // the policy evaluates documents without a request
	images       images
	references   *references
	attestors    map[string]attestor
	attestations map[string]statement
	// attestorNames and attestationNames are the values of the variables attestors and attestations in expressions.
	attestorNames, attestationNames map[string]any

	registry world.ImageRequest
	// verifyDigest: an image without a digest fails. required: an image fails if no policy has verified a signature of it.
	verifyDigest, required bool
}

// subject is an object whose images the policy selects.
type subject struct {
	in       *run.Input
	run      *celrule.Run
	verifier *verifier
	images   []image // those selected by matchImageReferences
}

// begin evaluates conditions and exceptions, and finds the images. If it returns no subject, the yield is the result.
func (r *evaluator) begin(c *policy.Call) (*subject, policy.Yield) {
	in, err := celrule.Policies.Input(c)
	if err != nil {
		return nil, failed(err)
	}
	if r.json {
		in.OldObject, in.Source = nil, nil
	}
	registry := r.registry
	if !r.json {
		object, _ := in.Object.(map[string]any)
		imageverify.WithLogin(&registry, c.Request, object)
	}
	registry.Confined = c.Program != nil && c.Program.Namespace != ""
	in.Registry, in.Attestors, in.Attestations = registry, r.attestorNames, r.attestationNames
	s := &subject{in: in, verifier: &verifier{
		evaluator: r, checks: imageverify.Verifier{Call: c, Registry: registry, For: imageverify.Asker(c.Program, c.Rule.Name)},
	}}
	in.Verifier = func(text run.TextOf) env.Verifier {
		s.verifier.text = text
		return s.verifier
	}
	s.run = r.rule.Begin(c.Context(), c.Meter, in)
	switch applies, err := s.run.Applies(); {
	case err != nil:
		return nil, unconditioned(c, err)
	case !applies:
		return nil, policy.Yield{}
	}
	exemption, err := celpolicy.Exempt(c)
	if err != nil {
		return nil, unconditioned(c, err)
	}
	if y := exemption.Full; y.Status != policy.StatusNone {
		return nil, celpolicy.Skipped(y) // reportResult has no effect on these policies, as in Kyverno
	}
	if err := r.find(c, s, exemption.Allowed.AllowedImages); err != nil {
		return nil, failed(err)
	}
	return s, policy.Yield{}
}

// find returns the selected images of the object without those that exceptions exempt, and provides them to expressions by group. In a
// request for a subresource of a Pod that the policy does not list, only the images count that the request adds.
func (r *evaluator) find(c *policy.Call, s *subject, exempt []string) error {
	object, _ := s.in.Object.(map[string]any)
	all, names, err := r.images.find(kindOf(object, c.Request.RequestGVK.GroupKind()), object, s.run)
	if err != nil {
		return err
	}
	if r.subject.Unlisted(c.Request) {
		if all, err = added(all, c.Request); err != nil {
			return err
		}
	}
	groups := make(map[string][]any, len(names))
	for _, name := range names {
		groups[name] = []any{}
	}
	for i := range all {
		if err := c.Meter.Step(len(exempt)); err != nil {
			return err
		}
		if exempts(exempt, c.Images, all[i].text) {
			continue
		}
		selected, err := r.references.selects(c.Context(), c.Meter, c.Images, all[i].text)
		if err != nil {
			return err
		}
		if selected {
			s.images = append(s.images, all[i])
			groups[all[i].group] = append(groups[all[i].group], all[i].text)
		}
	}
	s.in.Images = make(map[string]any, len(groups))
	for name, list := range groups {
		s.in.Images[name] = list
	}
	return nil
}

// unconditioned returns the result if the conditions cannot be evaluated. With failurePolicy Ignore the policy does not match the
// request. The Program holds the effective failurePolicy, since --forceFailurePolicyIgnore changes it.
func unconditioned(c *policy.Call, err error) policy.Yield {
	if c.Program.Settings.FailurePolicy == policy.Ignore && !budget.Over(err) {
		return policy.Yield{}
	}
	return failed(err)
}

// failed returns the result of a policy that could not be evaluated. After a failed lookup in a registry or another service, the result is
// unknown.
func failed(err error) policy.Yield {
	unanswered := (*env.UnansweredError)(nil)
	return policy.Yield{
		Status: policy.StatusError, Message: textFailed + celpolicy.Text(err), Cause: err, Part: celpolicy.PartEvaluation,
		Unknown: errors.As(err, &unanswered) || errors.Is(err, context.DeadlineExceeded),
	}
}

// evaluate evaluates the validations.
func (r *evaluator) evaluate(c *policy.Call) policy.Yield {
	s, y := r.begin(c)
	if s == nil {
		return y
	}
	if r.verifyDigest {
		for i := range s.images {
			if text := s.images[i].text; !hasDigest(text) {
				return about(policy.Yield{Status: policy.StatusFail}, textNoDigest, text)
			}
		}
	}
	out, err := s.run.Check()
	if y = verdict(out, err); y.Status == policy.StatusFail && r.subject.Unlisted(c.Request) {
		y = celpolicy.Existing(c, y, r.failures)
	}
	y.Signatures = &policy.Signatures{Images: s.verifier.verified, Attested: s.verifier.checks.Answers}
	if err == nil {
		y.Annotations = r.rule.Audited(out.Annotations)
	}
	if r.required && len(s.images) > 0 && (y.Status == policy.StatusPass || y.Status == policy.StatusSkip) { // a tolerated violation vouches for no image
		y.Signatures.Settle = require(c.Program, y, s.images)
	}
	return y
}

// failures returns the violations of a request.
func (r *evaluator) failures(c *policy.Call) ([]celrule.Violation, error) {
	s, y := r.begin(c)
	switch {
	case s != nil:
		return s.run.Failures()
	case y.Status == policy.StatusError:
		return nil, errors.New(y.Message)
	}
	return nil, nil
}

// verdict converts the outcome of validations and audit annotations to a result.
func verdict(out celrule.Outcome, err error) policy.Yield {
	switch {
	case err != nil:
		return failed(err)
	case out.Failed == nil:
		return policy.Yield{Status: policy.StatusPass, Message: textPassed, Properties: out.Annotations}
	}
	properties := maps.Clone(out.Annotations)
	if properties == nil {
		properties = map[string]string{}
	}
	properties[celpolicy.PropertyIndex] = strconv.Itoa(out.Index)
	return policy.Yield{Status: policy.StatusFail, Message: celpolicy.Failure(out), Properties: properties}
}

// require returns a function that computes the final result after all policies are evaluated: each image needs a signature that some policy
// verified. Signatures verified by a namespaced policy do not count for cluster-wide policies, nor for those of other namespaces.
func require(p *policy.Program, passed policy.Yield, images []image) func([]policy.Result) policy.Yield {
	return func(all []policy.Result) policy.Yield {
		for i := range images {
			asked, verified := false, false
			for k := range all {
				if all[k].Signatures == nil {
					continue
				}
				found, tried := all[k].Signatures.Images[images[i].text]
				if tried = tried && all[k].Program.Namespace == p.Namespace; tried {
					asked, verified = true, verified || found
				}
			}
			y := passed
			switch y.Status = policy.StatusFail; {
			case verified:
			case asked:
				return about(y, textUnsigned, images[i].text)
			default:
				return about(y, textUnverified, images[i].text)
			}
		}
		return passed
	}
}

// hasDigest reports whether an image reference has a digest.
func hasDigest(image string) bool {
	r, err := imageref.Parse(image)
	return err == nil && r.Digest != ""
}

// names returns the keys of a map as a variable of expressions, which maps each key to itself.
func names[T any](of map[string]T) map[string]any {
	out := make(map[string]any, len(of))
	for name := range of {
		out[name] = name
	}
	return out
}

// about returns a result about an image.
func about(y policy.Yield, format, image string) policy.Yield {
	y.Message = fmt.Sprintf(format, image)
	return y
}
