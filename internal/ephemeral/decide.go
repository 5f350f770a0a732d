package ephemeral

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/policy"
)

// DisabledLabel on a policy, with whatever value, keeps its results out of reports.
const DisabledLabel = "reports.kyverno.io/disabled"

// Sends decides who reports the result of a rule for an object of the kind: whoever found it, by sending it, or the scans,
// which find it again. It is left to them only where they see all that the rule looks at. What they do not judge at all
// is always sent: mutation, work, and images.
func Sends(p *policy.Program, r *policy.Rule, kind schema.GroupKind, s Scans) bool {
	if _, off := p.Labels[DisabledLabel]; off {
		return false
	}
	return !p.Settings.Background || !scanned(r) || !s.Has(kind)
}

// scanned reports whether a scan sees all that the rule looks at: the object and its namespace.
func scanned(r *policy.Rule) bool {
	if r.Stage&^policy.StageValidate != 0 || r.Kind == verifyImages {
		return false
	}
	if n := &r.Needs; n.User || n.Roles || n.Operation || n.OldObject || n.Images {
		return false
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Subresource != "" || len(t.Operations) > 0 && !slices.Contains(t.Operations, policy.Create) {
			return false
		}
	}
	return true
}

const verifyImages policy.RuleKind = "verifyImages"

// Reporting is what --enableReporting calls the rule.
func Reporting(r *policy.Rule) string {
	switch {
	case r.Kind == verifyImages:
		return "imageVerify"
	case r.Stage.Has(policy.StageMutateExisting):
		return "mutateExisting"
	case r.Stage.Has(policy.StageMutate):
		return "mutate"
	case r.Stage.Has(policy.StageGenerate):
		return "generate"
	}
	return "validate"
}

// unreported are groups whose objects are in no report: reports about reports would never come to an end.
var unreported = []string{"wgpolicyk8s.io", "openreports.io", "reports.kyverno.io"}

// reportable reports whether results about the request's object may be in a report at all (control plane reference §5.6).
func reportable(r *policy.Request) bool {
	return !r.DryRun && r.Operation != policy.Delete && r.Subresource == "" && r.GVK.Kind != "Event" && !slices.Contains(unreported, r.GVK.Group)
}
