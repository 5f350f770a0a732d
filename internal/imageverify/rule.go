package imageverify

import (
	"errors"
	"slices"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// Rule is what a rule says about images, entry by entry.
type Rule struct {
	Name     string
	Entries  []*Entry
	Language Language
}

// Entry is what a rule says about the images that References name.
type Entry struct {
	References
	// MutateDigest: a digest is written behind each tag. VerifyDigest: an image without a digest fails. Required: an image
	// that was not verified fails.
	MutateDigest, VerifyDigest, Required bool
	Verifies                             bool // there is a required signer, or a statement that has to be there
	Validates                            bool // Session.Validate is asked about each image
	UseCache                             bool // answers about signatures may be remembered
}

// Language is how a rule is written. The variables are those that Evaluate was called with.
type Language interface {
	// ImagesOf finds the images of another object than that of the request, of the same kind.
	ImagesOf(variables policy.Variables, object map[string]any) ([]imageref.Image, error)
	// Begin is called for each image that an entry is about.
	Begin(variables policy.Variables, entry int, image *imageref.Image) Session
}

// Session is the evaluation of one image by one entry, in the language of the rule.
type Session interface {
	// Plan says who has to sign the image.
	Plan() (*Plan, error)
	// Examine looks at statements that an attestor signed; the error says why they do not satisfy. use is called when they
	// turn out to be about the image.
	Examine(attestation int, statements []world.Statement) (use func(), err error)
	// Validate is what the entry says of a verified image besides.
	Validate() policy.Yield
}

// Evaluate does the halves of the rule's work that the call asks for: one that changes the object and speaks of every image,
// and one that only looks at the object.
func (r *Rule) Evaluate(c *policy.Call, variables policy.Variables, images []imageref.Image) policy.Yield {
	stages := c.Stages
	if stages == 0 {
		stages = c.Rule.Stage
	}
	var yields []policy.Yield
	var object map[string]any
	if stages.Has(policy.StageVerifyImages) && r.acts() {
		run := &verification{Rule: r, call: c, variables: variables, images: targets(images)}
		if err := run.verify(); err != nil {
			return failed("", err)
		}
		yields, object = run.yields, run.object
		images = make([]imageref.Image, len(run.images))
		for i := range run.images {
			images[i] = run.images[i].Image
		}
	}
	if stages.Has(policy.StageValidate) && !unsuccessful(yields) {
		if y := r.require(c, images, object); y.Status != policy.StatusNone {
			yields = append(yields, y)
		}
	}
	return joinYields(yields, object)
}

// acts reports whether a mutating review has anything to do.
func (r *Rule) acts() bool {
	return slices.ContainsFunc(r.Entries, func(e *Entry) bool { return e.acts() })
}

// acts reports whether a mutating review has anything to do for the entry.
func (e *Entry) acts() bool { return e.Verifies || e.MutateDigest || e.Validates || len(e.skip) > 0 }

// verifies reports whether a signature is required.
func (r *Rule) verifies() bool {
	return slices.ContainsFunc(r.Entries, func(e *Entry) bool { return e.Verifies })
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

// failed is a result of status error.
func failed(prefix string, err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: prefix + err.Error()}
}

var errNoObject = errors.New("the request carries no object")

// subject is the object whose images are verified.
func subject(c *policy.Call) (map[string]any, error) {
	object, err := c.Request.Subject()
	if err == nil && object == nil {
		err = errNoObject
	}
	return object, err
}
