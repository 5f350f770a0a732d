package preflight

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/lint"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/world"
)

// differences are the lint checks that find policies which Ephor evaluates differently.
var differences = []string{"data-expansion"}

// checkPolicies compiles policies, exceptions and global entries, as the controllers would.
func (s *state) checkPolicies(ctx context.Context) {
	access, err := s.futureRights(ctx)
	s.unread(Object{Kind: "ClusterRole"}, err)
	var reviewer *policyreview.Reviewer
	if err == nil {
		reviewer = &policyreview.Reviewer{
			Options: policyreview.Options{Accounts: access.accounts}, Discovery: s.Kinds, Log: s.Log, Now: s.Now,
			Root: world.RootFunc(func(world.Reach) world.World { return world.World{Access: access} }),
		}
	}
	for _, d := range s.definitions {
		err := s.each(ctx, d.gvk(), func(u *unstructured.Unstructured) {
			apiVersion, kind := u.GetAPIVersion(), u.GetKind()
			u.SetManagedFields(nil)
			switch {
			case compile.Owns(apiVersion, kind):
				s.policy(ctx, u, reviewer)
			case compile.OwnsException(apiVersion, kind):
				_, diags := compile.OneException(compile.Object{Value: u.Object})
				s.refused("exception-not-applied", Stops, u, "Ephor would not apply it: ", diags)
			case globalentry.Owns(apiVersion, kind):
				_, diags := globalentry.Compile(u.Object)
				s.refused("entry-not-loaded", Stops, u, "policies that use its data would end in errors: ", diags)
			}
		})
		s.unread(Object{Kind: d.kind}, err)
	}
}

// refused reports the mistakes in an object, if it has any.
func (s *state) refused(code string, severity Severity, u *unstructured.Unstructured, what string, diags diag.List) bool {
	mistakes := diags.Errors()
	if len(mistakes) == 0 {
		return false
	}
	s.add(Finding{Code: code, Severity: severity, Object: objectOf(u), Message: what + join(mistakes)})
	return true
}

func join(diags diag.List) string {
	texts := make([]string, len(diags))
	for i, d := range diags {
		texts[i] = d.String()
	}
	return strings.Join(texts, "; ")
}

func (s *state) policy(ctx context.Context, u *unstructured.Unstructured, reviewer *policyreview.Reviewer) {
	object := compile.Object{Value: u.Object}
	gvk := u.GroupVersionKind()
	if k := compile.Kinds.Of(gvk.Group, gvk.Kind); k != nil && k.Offline {
		s.add(Finding{
			Code: "policy-not-enforced", Severity: Lost, Object: objectOf(u),
			Message: "the controllers of this version evaluate no policies of the kind " + gvk.Kind + ": nothing of it would be enforced",
		})
		return
	}
	program, diags := compile.With(object, nil, family.Options{Server: s.server()})
	if s.refused("policy-not-enforced", Lost, u, "its rules would end in errors, and nothing of it would be enforced: ", diags) {
		return
	}
	if k := compile.Kinds.Of(gvk.Group, gvk.Kind); k != nil && k.Superseded {
		s.superseded = append(s.superseded, program)
	}
	if ns := u.GetNamespace(); ns != "" {
		if s.held == nil {
			s.held = map[string]int64{}
		}
		if s.held[ns] += program.Held; s.held[ns] > compilecost.MaxNamespaceBytes {
			s.add(Finding{Code: "policy-not-enforced", Severity: Lost, Object: objectOf(u), Message: compilecost.NamespaceText(ns)})
			return
		}
	}
	for _, f := range lint.Policy(object, lint.Options{Permitted: family.Permissions{Server: s.server()}}) {
		for _, name := range differences {
			if f.Check.Name == name && !(s.settings != nil && u.GetNamespace() == "" && s.settings.ExpandData[u.GetName()]) {
				s.add(Finding{Code: "policy-differs", Severity: Stops, Object: objectOf(u), Message: f.Diagnostic.String()})
			}
		}
	}
	if program.Namespace != "" && program.Registries() && !s.sharesLogin() {
		s.add(Finding{
			Code: "policy-without-login", Severity: Stops, Object: objectOf(u),
			Message: "it may not use the pull secrets and the cloud identity of the installation, so private images that need them would not be read, and its rules would end in errors",
			Commands: []string{
				"name pull secrets of its namespace in the policy, or install with --set features.registryClient.namespacedPoliciesUseOperatorLogin=true",
			},
		})
	}
	if more := seesMore(program); len(more) > 0 {
		s.add(Finding{Code: "policy-sees-more", Severity: Note, Object: objectOf(u), Message: "unlike in Kyverno, it is also evaluated on " + strings.Join(more, ", ")})
	}
	if reviewer != nil {
		s.rights(ctx, u, program, reviewer)
	}
}

// seesMore returns what Ephor evaluates a policy on although Kyverno does not: subresources of Pods that the policy does not list, and the
// images of volumes.
func seesMore(p *policy.Program) (more []string) {
	add := func(text string) {
		if !slices.Contains(more, text) {
			more = append(more, text)
		}
	}
	for _, r := range p.Rules {
		pods := false
		for _, t := range r.Targets {
			if t.Unlisted {
				add("requests for " + t.Resource + "/" + t.Subresource)
			}
			pods = pods || t.Main() && (t.Kind == "Pod" || t.Resource == "pods")
		}
		if pods && (r.Needs.Images || r.Needs.Registries || r.Stage.Has(policy.StageVerifyImages)) {
			add("the images of volumes")
		}
	}
	return more
}

// sharesLogin reports whether the values of the release already let namespaced policies use the login of the installation.
func (s *state) sharesLogin() bool {
	if s.release == nil {
		return false
	}
	on, _, err := unstructured.NestedBool(s.release.Config, "features", "registryClient", "namespacedPoliciesUseOperatorLogin")
	return err == nil && on
}

// rights finds rights that the work of a policy needs and that the controllers would not have.
func (s *state) rights(ctx context.Context, u *unstructured.Unstructured, program *policy.Program, reviewer *policyreview.Reviewer) {
	missing := reviewer.Rights(ctx, program)
	if len(missing) == 0 {
		return
	}
	f := Finding{Code: "right-missing", Severity: Stops, Object: objectOf(u)}
	texts := make([]string, len(missing))
	for i, d := range missing {
		texts[i] = strings.TrimSpace(d.Summary)
	}
	f.Message = "its work would fail, and the policy would not report it: " + strings.Join(texts, "; ")
	f.Commands = []string{"grant them by a ClusterRole with the label " + reviewer.Aggregation(program)}
	s.add(f)
}
