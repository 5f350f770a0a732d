package imageverify

import (
	"errors"
	"slices"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Rule holds the entries of a rule about images.
type Rule struct {
	Name     string
	Entries  []*Entry
	Language Language
}

// Entry defines the checks for the images that References select.
type Entry struct {
	References
	// MutateDigest: a digest is added to each tag. VerifyDigest: an image without a digest fails. Required: an image that
	// was not verified fails.
	MutateDigest, VerifyDigest, Required bool
	Verifies                             bool // there is a required signer or a required statement
	Validates                            bool // Session.Validate is called for each image
	UseCache                             bool // answers about signatures may be remembered
}

// Language is the language of a rule. The variables are those that were passed to Evaluate.
type Language interface {
	// ImagesOf finds the images in another object of the same kind as the request's.
	ImagesOf(variables policy.Variables, object map[string]any) ([]imageref.Image, error)
	// Begin is called for each image that an entry selects.
	Begin(variables policy.Variables, entry int, image *imageref.Image) Session
}

// Session is the evaluation of one image by one entry, in the language of the rule.
type Session interface {
	// Plan returns who must sign the image.
	Plan() (*Plan, error)
	// Examine evaluates statements that an attestor signed; the error says why they do not satisfy. use is called if the
	// statements turn out to refer to the image.
	Examine(attestation int, statements []world.Statement) (use func(), err error)
	// Validate makes the other checks of the entry on a verified image.
	Validate() policy.Yield
}

// Evaluate does the halves of the rule's work that the call requests: one changes the object and reports on every image, the
// other only checks the object.
func (r *Rule) Evaluate(c *policy.Call, variables policy.Variables, images []imageref.Image) policy.Yield {
	stages := c.Stages
	if stages == 0 {
		stages = c.Rule.Stage
	}
	var yields []policy.Yield
	var object map[string]any
	if stages.Has(policy.StageVerifyImages) && r.acts() {
		run := &verification{Rule: r, call: c, variables: variables, images: targets(images, c.Images)}
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
		if y := r.require(c, images, object); y.Status != policy.StatusNone {
			yields = append(yields, y)
		}
	}
	return joinYields(yields, object)
}

// acts reports whether the rule has work in a mutating review.
func (r *Rule) acts() bool {
	return slices.ContainsFunc(r.Entries, func(e *Entry) bool { return e.acts() })
}

// acts reports whether the entry has work in a mutating review.
func (e *Entry) acts() bool { return e.Verifies || e.MutateDigest || e.Validates || len(e.skip) > 0 }

// verifies reports whether a signature is required.
func (r *Rule) verifies() bool {
	return slices.ContainsFunc(r.Entries, func(e *Entry) bool { return e.Verifies })
}

// unsuccessful reports whether a verification failed. Then its results are not required again, since that would only repeat
// the message.
func unsuccessful(yields []policy.Yield) bool {
	return containsFunc(yields, func(y *policy.Yield) bool { return y.Status == policy.StatusFail || y.Status == policy.StatusError })
}

// joinYields joins several results into one Yield, without duplicates.
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

// failed returns a result of status error.
func failed(prefix string, err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: prefix + err.Error()}
}

var errNoObject = errors.New("the request carries no object")

// subject returns the object whose images are verified.
func subject(c *policy.Call) (map[string]any, error) {
	object, err := c.Request.Subject()
	if err == nil && object == nil {
		err = errNoObject
	}
	return object, err
}
