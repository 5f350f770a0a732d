package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/kinds"
	"github.com/ephor-dev/ephor/internal/lint"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/schema"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// reviewPolicy accepts a policy when it compiles: what runs later is what was checked now. A refusal opens with
// the first mistake's text alone, as users and tests know it; the lines after it say where it is, how to correct it and
// what else is wrong.
func (s *Server) reviewPolicy(ctx context.Context, req *policy.Request, _ place) (response, error) {
	if req.Subresource != "" || req.Operation == policy.Delete {
		return response{allowed: true}, nil
	}
	object, err := req.Object.Map()
	if err != nil {
		return response{message: "the policy cannot be read: " + err.Error()}, nil
	}
	if leaves(req, object) {
		return response{allowed: true}, nil
	}
	program, diags := compile.One(compile.Object{Value: object})
	if program != nil {
		diags.Add(s.checkKinds(program, object)...)
		diags.Add(s.checkOutputs(program)...)
	}
	if !diags.HasErrors() {
		diags.Add(s.checkDeferred(program)...)
		diags.Add(s.checkLoops(program)...)
		diags.Add(lint.CELFields(object, builtinKinds)...)
	}
	changed := true
	if req.Operation == policy.Update {
		old, err := req.OldObject.Map()
		if err != nil {
			return response{message: "the stored policy cannot be read: " + err.Error()}, nil
		}
		diags.Add(compile.CheckUpdate(old, object)...)
		changed = !value.Equal(old["spec"], object["spec"])
	}
	if changed && !diags.HasErrors() {
		diags.Add(s.checkRights(ctx, program, req.User)...)
		diags.Add(s.warnReports(ctx, program)...)
		if s.ReviewWebhooks != nil {
			diags.Add(s.ReviewWebhooks(program)...)
		}
	}
	if diags.HasErrors() {
		return response{message: refusal(diags.Errors())}, nil
	}
	res := response{allowed: true}
	res.warnings = appendWarnings(res.warnings, diags.Warnings())
	return res, nil
}

// builtinKinds are the kinds whose fields are known; those of custom resources are not looked at.
var builtinKinds = schema.New()

// leaves reports whether the request only touches the metadata of what is being deleted: its finalizers must not get
// stuck on a mistake. The API server takes changes of the rest until the last finalizer is gone, and what they say is in
// force until then, so they are reviewed like any other (S7 and S19 in docs/threat-model.md).
func leaves(req *policy.Request, object map[string]any) bool {
	if !beingDeleted(object) {
		return false
	}
	old, err := req.OldObject.Map()
	return err == nil && value.Equal(old["spec"], object["spec"])
}

func beingDeleted(object map[string]any) bool {
	meta, _ := object["metadata"].(map[string]any)
	return meta["deletionTimestamp"] != nil
}

// checkKinds compares the kinds that the policy names with what the API server serves. A kind that is not served is
// only a warning, since its definition may come later.
func (s *Server) checkKinds(p *policy.Program, object map[string]any) diag.List {
	var diags diag.List
	warned := map[string]bool{}
	for _, r := range p.Rules {
		if r.Origin.IsAutogen() {
			continue
		}
		for _, t := range r.Targets {
			if t.Kind == "*" {
				continue
			}
			served, namespaced, err := s.cluster.Serves(t)
			name := kindText(t)
			switch {
			case err != nil:
				s.Log.Warn("the kind of a policy could not be looked up", "policy", p.Key(), "kind", name, "error", err)
			case !served && t.Subresource == "" && len(s.cluster.BodyOf(t.Kind)) > 0:
				diags.Add(notASubresource(p, r, kindsField(object, r.Path, t), "no resource has the kind "+t.Kind+", only subresources have", t.Kind)...)
				diags.Hint("name the subresource: %s", strings.Join(s.cluster.BodyOf(t.Kind), ", "))
			case !served && s.neverServed(t):
				diags.Add(notASubresource(p, r, kindsField(object, r.Path, t), t.Kind+" has no subresource "+t.Subresource, t.Kind+"/"+t.Subresource)...)
			case !served && !warned[name]:
				warned[name] = true
				diags.Warnf(r.Path, "the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds %s", name)
			case served && !namespaced && p.Namespace != "":
				diags.Errorf(r.Path+".match", "Cluster wide resource '%s' not allowed in namespaced policy", t.Kind)
				diags.Hint("a Policy sees the resources of its own namespace only; use a ClusterPolicy")
			}
		}
	}
	return diags
}

// notASubresource is the mistake of a selector that no request can ever meet, with Kyverno's text where it has one.
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

// neverServed reports whether the selector names a subresource that a kind of Kubernetes' own does not have. Custom
// resources may get theirs later.
func (s *Server) neverServed(t policy.Target) bool {
	if t.Subresource == "" || wildcard.Has(t.Subresource) || wildcard.Has(t.Kind) {
		return false
	}
	t.Subresource = ""
	found, err := s.cluster.Resources(t)
	return err == nil && len(found) > 0 && !slices.ContainsFunc(found, func(r apischema.GroupVersionResource) bool {
		return !kinds.KubernetesGroup(r.Group)
	})
}

// checkOutputs compares the namespaces of what generate rules make with the scope that the API server knows. The scope
// of Kubernetes' own kinds was checked before.
func (s *Server) checkOutputs(p *policy.Program) diag.List {
	var diags diag.List
	for _, r := range p.Rules {
		for _, o := range r.Outputs {
			gv, err := apischema.ParseGroupVersion(o.APIVersion)
			if err != nil {
				continue
			}
			kind, _, _ := strings.Cut(o.Kind, "/") // a subresource is where its resource is
			served, namespaced, err := s.cluster.Serves(policy.Target{Group: gv.Group, Version: gv.Version, Kind: kind})
			switch {
			case err != nil:
				s.Log.Warn("the kind that a policy generates could not be looked up", "policy", p.Key(), "kind", o.Kind, "error", err)
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

// checkDeferred warns of rules whose work is recorded but not executed, since no background controller is
// named: a policy must not seem to do what it does not.
func (s *Server) checkDeferred(p *policy.Program) diag.List {
	if s.Accounts.Background != "" {
		return nil
	}
	var diags diag.List
	for _, r := range p.Rules {
		if !r.Origin.IsAutogen() && r.Stage.Has(policy.StageGenerate|policy.StageMutateExisting) {
			diags.Warnf(r.Path, "rule %s: the %s work is only noted: there is no background controller to carry it out", r.Name, r.Kind)
		}
	}
	return diags
}

// kindText is the selector as a user would write it.
func kindText(t policy.Target) string {
	text := t.Kind
	switch {
	case t.Group != "*":
		text = fmt.Sprintf("%s/%s/%s", t.Group, t.Version, t.Kind)
	case t.Version != "*":
		text = t.Version + "/" + t.Kind
	}
	if t.Subresource != "" {
		text += "/" + t.Subresource
	}
	return text
}
