package rule

import (
	"slices"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
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
	name       string
	entries    []*imageEntry
	extractors extractors
}

// imageRule compiles the entries of the rule.
func (c *compiler) imageRule(r *kyvernov1.Rule) *imageRule {
	c.reads.Needs.Merge(policy.Needs{Images: true, OldObject: true, Operation: true, Registries: true})
	v := &imageRule{name: r.Name, extractors: c.extractors(r)}
	for i := range r.VerifyImages {
		v.entries = append(v.entries, c.imageEntry(&r.VerifyImages[i], c.in.Path+index(".verifyImages", i)))
	}
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

// evaluate does the halves of the rule's work that the call requests: one changes the object and reports on every image, the
// other only checks the object.
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
	stages := s.Stages
	if stages == 0 {
		stages = s.Rule.Stage
	}
	var yields []policy.Yield
	var object map[string]any
	if stages.Has(policy.StageVerifyImages) && slices.ContainsFunc(v.entries, (*imageEntry).acts) {
		run := &verification{imageRule: v, Scope: s, images: imageTargets(images, s.Images)}
		if err := run.verify(); err != nil {
			return failed("", err)
		}
		yields, object = run.yields, run.object
		images = make([]imageref.Image, len(run.images))
		for i := range run.images {
			images[i] = run.images[i].Image.Image
		}
	}
	if stages.Has(policy.StageValidate) && !unsuccessful(yields) {
		if y := v.require(s, images, object); y.Status != policy.StatusNone {
			yields = append(yields, y)
		}
	}
	return joinYields(yields, object)
}

// unsuccessful reports whether a verification failed. Then its results are not required again, since that would only repeat
// the message.
func unsuccessful(yields []policy.Yield) bool {
	return anyYield(yields, func(y *policy.Yield) bool { return y.Status == policy.StatusFail || y.Status == policy.StatusError })
}

// joinYields joins several results into one Yield, without duplicates.
func joinYields(yields []policy.Yield, object map[string]any) policy.Yield {
	if len(yields) == 0 {
		return policy.Yield{}
	}
	out := yields[0]
	for _, y := range yields[1:] {
		same := func(o *policy.Yield) bool { return o.Status == y.Status && o.Message == y.Message }
		if !same(&yields[0]) && !anyYield(out.Also, same) {
			out.Also = append(out.Also, y)
		}
	}
	if object != nil {
		out.Object = value.Of(object)
	}
	return out
}

func anyYield(yields []policy.Yield, is func(*policy.Yield) bool) bool {
	for i := range yields {
		if is(&yields[i]) {
			return true
		}
	}
	return false
}
