package rule

import (
	"slices"
	"strconv"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/scope"
	"github.com/ephor-dev/ephor/internal/value"
)

var verifyImages = &Kind{
	Name:  "verifyImages",
	Stage: policy.StageVerifyImages | policy.StageValidate,
	Doc: "The images that the entries name have to be signed by the attestors and to carry the attestations. A mutating review verifies them, " +
		"replaces tags by digests and records what was verified in annotations of the resource; a validating review requires digests and records.",
	Owns:         func(r *kyvernov1.Rule) bool { return len(r.VerifyImages) > 0 },
	skipOnDelete: true,
	noScan:       true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		v := c.imageRule(r)
		return v.evaluate
	},
	lifecycle: func(r *kyvernov1.Rule, out *policy.Rule) {
		for i := range r.VerifyImages {
			if e := &r.VerifyImages[i]; on(e.Required) || on(e.VerifyDigest) {
				return
			}
		}
		out.Stage = policy.StageVerifyImages // a validating review has nothing to require
	},
}

// on reads a switch that is on where the author says nothing.
func on(b *bool) bool { return b == nil || *b }

// imageRule is a verifyImages rule, compiled.
type imageRule struct {
	rule       string
	entries    []*imageEntry
	extractors extractors
}

// imageRule compiles the entries of the rule.
func (c *compiler) imageRule(r *kyvernov1.Rule) *imageRule {
	c.reads.Needs.Merge(policy.Needs{Images: true, OldObject: true, Operation: true})
	v := &imageRule{rule: r.Name, extractors: c.extractors(r)}
	for i := range r.VerifyImages {
		path := c.in.Path + ".verifyImages[" + strconv.Itoa(i) + "]"
		e := c.imageEntry(&r.VerifyImages[i], path)
		e.index = i
		v.entries = append(v.entries, e)
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

// evaluate does the halves of the rule's work that the evaluation asks for: one that changes the object and speaks of
// every image, and one that only looks at the object.
func (v *imageRule) evaluate(s *scope.Scope) policy.Yield {
	if s.Request.Operation == policy.Delete {
		return policy.Yield{}
	}
	stages := s.Stages
	if stages == 0 {
		stages = s.Rule.Stage
	}
	images, err := v.extractors.images(s)
	if err != nil {
		return failed("failed to extract images: ", err)
	}
	if len(images) == 0 {
		return policy.Yield{}
	}
	var yields []policy.Yield
	var object map[string]any
	if stages.Has(policy.StageVerifyImages) && v.acts() {
		run := &verification{imageRule: v, scope: s, images: append([]imageref.Image(nil), images...)}
		if err := run.verify(); err != nil {
			return failed("", err)
		}
		yields, object, images = run.yields, run.object, run.images
	}
	if stages.Has(policy.StageValidate) && !unsuccessful(yields) {
		if y := v.require(s, images, object); y.Status != policy.StatusNone {
			yields = append(yields, y)
		}
	}
	return joinYields(yields, object)
}

// acts reports whether a mutating review has anything to do.
func (v *imageRule) acts() bool {
	return slices.ContainsFunc(v.entries, func(e *imageEntry) bool { return e.acts() })
}

// unsuccessful reports whether a verification failed: what it failed to do is not required then, since that would only say
// the same once more.
func unsuccessful(yields []policy.Yield) bool {
	return containsFunc(yields, func(y *policy.Yield) bool { return y.Status == policy.StatusFail || y.Status == policy.StatusError })
}

// joinYields makes one Yield of several results, without those that say the same again.
func joinYields(yields []policy.Yield, object map[string]any) policy.Yield {
	if len(yields) == 0 {
		return policy.Yield{}
	}
	out := yields[0]
	for _, y := range yields[1:] {
		if same := func(o *policy.Yield) bool { return o.Status == y.Status && o.Message == y.Message }; same(&yields[0]) ||
			containsFunc(out.Also, same) {
			continue
		}
		out.Also = append(out.Also, y)
	}
	if object != nil {
		out.Object = value.Of(object)
	}
	return out
}

func containsFunc(yields []policy.Yield, f func(*policy.Yield) bool) bool {
	for i := range yields {
		if f(&yields[i]) {
			return true
		}
	}
	return false
}
