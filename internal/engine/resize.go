package engine

import (
	"regexp"
	"sync"

	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
)

// isResize reports whether the request changes the resources of a running Pod. Its object is the Pod, but the API server stores only the
// resources.
func isResize(r *policy.Request) bool {
	return r.Subresource == "resize" && r.GVK.Kind == "Pod" && r.GVK.Group == ""
}

const textNotResources = "its change of the Pod is dropped: a request on pods/resize changes resources only"

// ofResources matches the paths that a resize may change.
var ofResources = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/spec/((containers|initContainers)/[0-9]+/)?resources(/|$)`)
})

// keepToResources drops a rule's changes to a Pod in a resize if they touch more than resources, and warns.
func (r *runner) keepToResources(out *policy.Outcome, y *policy.Yield, p *policy.Program, rule *policy.Rule) {
	if y.Status == policy.StatusError {
		return // nothing is kept
	}
	before, err := r.req.Object.Value()
	if err != nil {
		*y = failure("failed to read the Pod", err)
		return
	}
	after, err := y.Object.Value()
	if err != nil {
		*y = failure("failed to read the changed Pod", err)
		return
	}
	for _, op := range patch.Diff(before, after) {
		if ofResources().MatchString(op.Path) {
			continue
		}
		y.Object = nil
		if rule.Stage.Has(policy.StageMutate) {
			y.Status, y.Message = policy.StatusSkip, textNotResources
		}
		out.Warnings = append(out.Warnings, "policy "+p.Name+"."+rule.Name+": "+textNotResources)
		return
	}
}
