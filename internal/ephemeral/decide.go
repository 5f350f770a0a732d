package ephemeral

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

// DisabledLabel on a policy, with any value, excludes its results from reports.
const DisabledLabel = "reports.kyverno.io/disabled"

// Sends decides who reports the result of a rule for an object of the kind: the process that found it, which then sends it, or the scans,
// if they evaluate the rule. Results that scans never produce are always sent: those of mutation and work.
func Sends(p *policy.Program, r *policy.Rule, kind schema.GroupKind, s Scans) bool {
	if _, off := p.Labels[DisabledLabel]; off {
		return false
	}
	return !Scannable(p, r) || !scannedFor(r, kind) || !s.Has(kind)
}

// scannedFor reports whether scans evaluate a scannable rule for objects of the kind. If so, only their results are in reports, since an
// existing object can be evaluated again at any time, and no other client can write the results.
func scannedFor(r *policy.Rule, kind schema.GroupKind) bool {
	return slices.ContainsFunc(r.Targets, func(t policy.Target) bool { return Covers(&t) && t.MayName(kind) })
}

// OnlyAsked reports whether only requests have results of scannable rules about objects of the kind: the rules are about it, but not about
// its creation.
func OnlyAsked(rules []*policy.Rule, kind schema.GroupKind) bool {
	asked := false
	for _, r := range rules {
		if scannedFor(r, kind) {
			return false
		}
		asked = asked || slices.ContainsFunc(r.Targets, func(t policy.Target) bool { return t.Main() && t.MayName(kind) })
	}
	return asked
}

// ScanStages are the stages that scans evaluate.
const ScanStages = policy.StageValidate | policy.StageVerifyImages

// Scannable reports whether a scan can evaluate the rule: it validates resources or verifies their images, and uses no requester. A scan
// also evaluates a rule whose variables are not known in advance; that rule ends in an error if it uses a requester.
func Scannable(p *policy.Program, r *policy.Rule) bool {
	if !p.Settings.Background || !r.Stage.Has(ScanStages) || r.NoScan {
		return false
	}
	if _, off := p.Labels[DisabledLabel]; off {
		return false
	}
	n := &r.Needs
	if r.OwnNeeds != nil {
		n = r.OwnNeeds // an exception that uses the requester exempts nothing in a scan, and takes no rule out of it
	}
	unknown := n.User && n.Roles && n.OldObject && n.Operation
	return unknown || !n.User && !n.Roles
}

// Covers reports whether scans evaluate the objects that the target selects: whole objects, as if they were created.
func Covers(t *policy.Target) bool {
	return t.Main() && (len(t.Operations) == 0 || slices.Contains(t.Operations, policy.Create))
}

// Reporting returns the name of the rule's kind in --enableReporting.
func Reporting(r *policy.Rule) string {
	switch {
	case r.Stage.Has(policy.StageVerifyImages):
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

// Reportable reports whether reports are about objects of the kind. Reports about reports would never end, and events arrive faster than they
// can be evaluated.
func Reportable(k schema.GroupKind) bool {
	return k.Kind != "Event" && !slices.Contains([]string{"wgpolicyk8s.io", "openreports.io", "reports.kyverno.io"}, k.Group)
}

// reported reports whether reports have results about the request's object.
func reported(r *policy.Request) bool {
	return !r.DryRun && r.Operation != policy.Delete && r.Subresource == "" && Reportable(r.GVK.GroupKind())
}
