package imagevalidating

import (
	"fmt"

	"ephor.invalid/ephor/internal/imageverify"
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
	digests := map[string]string{}
	var operations []patch.Operation
	for i := range s.images {
		image := &s.images[i]
		if image.pointer == "" || hasDigest(image.text) {
			continue
		}
		digest, known := digests[image.text]
		if !known {
			parsed, err := c.Images.Parse(image.text)
			if err == nil {
				digest, err = imageverify.Digest(c.Context(), c.Request.Tags(), c.World, parsed.String(), s.panel.Registry)
			}
			if err != nil {
				return policy.Yield{Status: policy.StatusError, Message: textResolve + image.text + ": " + err.Error(), Part: PartMutateDigest, Unknown: true}
			}
			digests[image.text] = digest
		}
		operations = append(operations, patch.Operation{Op: "replace", Path: image.pointer, Value: image.text + "@" + digest})
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
