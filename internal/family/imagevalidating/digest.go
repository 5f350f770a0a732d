package imagevalidating

import (
	"fmt"

	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// PartMutateDigest is the name of the part of a policy that adds digests.
const PartMutateDigest = "mutateDigest"

// These texts are Kyverno's, verbatim.
const (
	textResolve    = "failed to update digest: failed to resolve digest for image "
	textExtraction = "digest-pinning mutation is not supported for extraction-mode targets"
)

// pin adds digests to the tags of the images of containers and volumes that the policy selects. It verifies nothing. It returns a result only if it
// cannot resolve a digest.
func (r *evaluator) pin(c *policy.Call) policy.Yield {
	s, _ := r.begin(c)
	if s == nil {
		return policy.Yield{} // the validating rule reports exceptions and errors
	}
	var operations []patch.Operation
	for i := range s.images {
		image := &s.images[i]
		if image.pointer == "" || hasDigest(image.text) {
			continue
		}
		found, err := s.verifier.image(image.text)
		if err == nil {
			err = s.verifier.checks.Resolve(c.Context(), found)
		}
		if err != nil {
			return policy.Yield{Status: policy.StatusError, Message: textResolve + image.text + ": " + err.Error(), Part: PartMutateDigest, Unknown: true}
		}
		operations = append(operations, patch.Operation{Op: "replace", Path: image.pointer, Value: image.text + "@" + found.Known})
	}
	if len(operations) == 0 {
		return policy.Yield{}
	}
	object, err := patch.ApplyJSON(c.Meter, s.in.Object, operations)
	if err != nil {
		return policy.Yield{Status: policy.StatusError, Message: fmt.Sprintf("failed to update digest: %v", err), Part: PartMutateDigest}
	}
	return policy.Yield{Object: value.Of(object.(map[string]any))}
}

// unpinned replaces pin for objects whose Pod templates must be searched.
func unpinned(*policy.Call) policy.Yield {
	return policy.Yield{Status: policy.StatusSkip, Message: textExtraction, Part: PartMutateDigest}
}
