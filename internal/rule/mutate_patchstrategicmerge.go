package rule

import (
	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
)

var mutateStrategicMerge = &Kind{
	Name:  "mutate.patchStrategicMerge",
	Stage: policy.StageMutate,
	Doc: "Merges a partial document into the resource; elements of lists are merged by name. " +
		"The anchors (key) and <(key) make the patch conditional, +(key) sets a field only if it is absent.",
	Owns:         func(r *kyvernov1.Rule) bool { return r.Mutation != nil && r.Mutation.RawPatchStrategicMerge != nil },
	skipOnDelete: true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		path := c.in.Path + ".mutate.patchStrategicMerge"
		v, ok := c.decode(r.Mutation.RawPatchStrategicMerge, path)
		if !ok {
			return nil
		}
		return c.mutation(r, c.strategicMerge(v, path, "/mutate/patchStrategicMerge").once, yieldNoPatches)
	},
}
