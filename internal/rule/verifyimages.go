package rule

import (
	"slices"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

var verifyImages = &Kind{
	Name:  "verifyImages",
	Stage: policy.StageVerifyImages | policy.StageValidate,
	Doc: "The images that match the entries must be signed by the attestors and have the attestations. A mutating review verifies them, " +
		"replaces tags with digests and records the result in annotations of the resource; a validating review requires the digests and records.",
	Owns:         func(r *kyvernov1.Rule) bool { return len(r.VerifyImages) > 0 },
	skipOnDelete: true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		v := c.imageRule(r)
		c.concerns = v.concerns
		return v.evaluate
	},
	lifecycle: func(r *kyvernov1.Rule, out *policy.Rule) {
		out.VerifiesImages = true
		// As in Kyverno, digests and records are required only in requests.
		out.NoScan = !slices.ContainsFunc(r.VerifyImages, func(e kyvernov1.ImageVerification) bool {
			modern := ModernImages(&e)
			return len(modern.Attestors)+len(modern.Attestations) > 0
		})
		for i := range r.VerifyImages {
			if e := &r.VerifyImages[i]; on(e.Required) || on(e.VerifyDigest) {
				return
			}
		}
		out.Stage = policy.StageVerifyImages // in a validating review, nothing is required
	},
}

// on returns the value of a switch whose default is on.
func on(b *bool) bool { return b == nil || *b }

// imageRule is a compiled verifyImages rule.
type imageRule struct {
	imageverify.Rule
	entries    []*imageEntry
	extractors extractors
}

// imageRule compiles the entries of the rule.
func (c *compiler) imageRule(r *kyvernov1.Rule) *imageRule {
	c.reads.Needs.Merge(policy.Needs{Images: true, OldObject: true, Operation: true, Registries: true})
	v := &imageRule{Rule: imageverify.Rule{Name: r.Name}, extractors: c.extractors(r)}
	for i := range r.VerifyImages {
		e := c.imageEntry(&r.VerifyImages[i], c.in.Path+index(".verifyImages", i))
		v.entries, v.Entries = append(v.entries, e), append(v.Entries, &e.Entry)
	}
	v.Language = v
	if len(v.extractors) > 0 {
		c.bind = func(s *scope.Scope) *scope.Scope {
			return s.WithLazy("images", func(before *scope.Scope) (any, error) {
				images, err := v.extractors.images(before)
				return imageref.Document(images), err
			})
		}
	}
	return v
}

// concerns reports whether the object has images. Images that cannot be extracted count.
func (v *imageRule) concerns(s *scope.Scope) bool {
	images, err := v.extractors.images(s)
	return err != nil || len(images) > 0
}

// evaluate finds the images of the object and evaluates the rule.
func (v *imageRule) evaluate(s *scope.Scope) policy.Yield {
	if s.Request.Operation == policy.Delete {
		return policy.Yield{}
	}
	images, err := v.extractors.images(s)
	if err != nil {
		return failed("failed to extract images: ", err)
	}
	if len(images) == 0 {
		return policy.Yield{}
	}
	return v.Evaluate(s.Call, s, images)
}
