package policyreview

import (
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// checkKinds compares the kinds of the policy with those that the API server serves. A kind that is not served causes only a warning, since
// its definition may come later.
func (v *Reviewer) checkKinds(p *policy.Program, object map[string]any) diag.List {
	var diags diag.List
	warned := map[string]bool{}
	for _, r := range p.Rules {
		if r.Origin.IsAutogen() {
			continue
		}
		for _, t := range r.Targets {
			if t.ByResource() || t.Kind == "*" {
				continue // it may be served later
			}
			served, namespaced, err := v.serves(t)
			name := t.String()
			switch {
			case err != nil:
				v.Log.Warn("the kind of a policy could not be looked up", "policy", p.Key(), "kind", name, "error", err)
			case !served && t.Subresource == "" && len(v.Discovery.BodyOf(t.Kind)) > 0:
				diags.Add(notASubresource(p, r, kindsField(object, r.Path, t), "no resource has the kind "+t.Kind+", only subresources have", t.Kind)...)
				diags.Hint("name the subresource: %s", strings.Join(v.Discovery.BodyOf(t.Kind), ", "))
			case !served && v.neverServed(t):
				diags.Add(notASubresource(p, r, kindsField(object, r.Path, t), t.Kind+" has no subresource "+t.Subresource, t.Kind+"/"+t.Subresource)...)
			case !served && !warned[name]:
				warned[name] = true
				diags.Warnf(r.Path, "the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds %s", name)
			case served && !namespaced && p.Namespace != "":
				diags.Errorf(r.Path+".match", "Cluster wide resource '%s' not allowed in namespaced policy", t.Kind)
				diags.Hint("a %s sees the resources of its own namespace only%s", p.Kind, v.useClusterWide(p))
			}
		}
	}
	return diags
}

// useClusterWide returns the end of a hint for the author of a namespaced policy: which kind of policy to use instead.
func (v *Reviewer) useClusterWide(p *policy.Program) string {
	if f := v.Families.FamilyOf(p.APIVersion, p.Kind); f != nil {
		if k := f.Kinds.Scoped(false); k != nil {
			return "; use a " + k.Kind
		}
	}
	return ""
}

// serves reports whether the API server serves the kinds of a target, and whether all of them are namespaced.
func (v *Reviewer) serves(t policy.Target) (served, namespaced bool, err error) {
	found, err := v.Discovery.Find(t)
	if err != nil || len(found) == 0 {
		return false, false, err
	}
	return true, !slices.ContainsFunc(found, func(r discovery.Resource) bool { return !r.Namespaced }), nil
}

// notASubresource returns the mistake for a selector that matches no request, with Kyverno's text if it has one.
func notASubresource(p *policy.Program, r *policy.Rule, path, text, selector string) diag.List {
	var diags diag.List
	if p.Settings.Background && r.Stage.Has(policy.StageValidate) {
		diags.Errorf(path, "background scan enabled with subresource %s", selector)
		diags.Code(diag.BackgroundKind, selector)
		return diags
	}
	diags.Errorf(path, "%s", text)
	return diags
}

// neverServed reports whether the selector names a subresource that a built-in kind does not have. Subresources of custom resources may be
// added later.
func (v *Reviewer) neverServed(t policy.Target) bool {
	if t.Subresource == "" || wildcard.Has(t.Subresource) || wildcard.Has(t.Kind) {
		return false
	}
	t.Subresource = ""
	found, err := v.Discovery.Find(t)
	return err == nil && len(found) > 0 && !slices.ContainsFunc(found, func(r discovery.Resource) bool {
		return !kinds.KubernetesGroup(r.Group)
	})
}

// checkOutputs compares the namespaces of generated objects with the scope of their kinds at the API server. The scope of built-in kinds
// was checked before.
func (v *Reviewer) checkOutputs(p *policy.Program) diag.List {
	var diags diag.List
	for _, r := range p.Rules {
		for _, o := range r.Outputs {
			gv, err := apischema.ParseGroupVersion(o.APIVersion)
			if err != nil {
				continue
			}
			kind, _, _ := strings.Cut(o.Kind, "/") // a subresource has the scope of its resource
			served, namespaced, err := v.serves(policy.Target{Group: gv.Group, Version: gv.Version, Kind: kind})
			switch {
			case err != nil:
				v.Log.Warn("the kind that a policy generates could not be looked up", "policy", p.Key(), "kind", o.Kind, "error", err)
			case !served:
				diags.Warnf(o.Path, "the API server does not serve %s %s, which the rule generates", o.APIVersion, o.Kind)
			case !namespaced && p.Namespace != "":
				diags.Errorf(o.Path, "the target must be a namespaced resource: %s/%s", o.APIVersion, o.Kind)
			case !namespaced && o.Namespace != "" && !o.List:
				diags.Errorf(o.Path+".namespace", "target namespace must not be set for a cluster-wide resource")
			case namespaced && o.Namespace == "":
				diags.Errorf(o.Path+".namespace", "target namespace must be set for a namespaced resource")
			}
		}
	}
	return diags
}

// checkDeferred warns of rules whose work is recorded but not executed, because no background controller is configured. Otherwise such a
// policy would silently do nothing.
func (v *Reviewer) checkDeferred(p *policy.Program) diag.List {
	if v.Accounts.Background != "" {
		return nil
	}
	var diags diag.List
	for _, r := range p.Rules {
		if !r.Origin.IsAutogen() && r.Stage.Has(policy.StageGenerate|policy.StageMutateExisting) {
			diags.Warnf(r.Path, "rule %s: the %s work is recorded but not executed: there is no background controller", r.Name, r.Kind)
		}
	}
	return diags
}
