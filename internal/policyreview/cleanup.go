package policyreview

import (
	"cmp"
	"context"
	"fmt"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Cleanup accepts a cleanup policy if it compiles, if its kinds are served with the right scope, and if the cleanup controller may list and
// delete them. The author of a namespaced policy needs the same rights, since a policy may not delete what its author may not delete (S7 in
// docs/security/threat-model.md).
func (v *Reviewer) Cleanup(ctx context.Context, req *policy.Request) Answer {
	if req.Subresource != "" || req.Operation == policy.Delete {
		return Answer{Allowed: true} // a change of the status, which only the controller writes
	}
	object, err := req.Object.Map()
	if err != nil {
		return Answer{Message: "the policy cannot be read: " + err.Error()}
	}
	if leaves(req, object) {
		return Answer{Allowed: true}
	}
	program, diags := v.Families.One(compile.Object{Value: object})
	changed := true
	if req.Operation == policy.Update {
		old, err := req.OldObject.Map()
		if err != nil {
			return Answer{Message: "the stored policy cannot be read: " + err.Error()}
		}
		changed = !value.Equal(old["spec"], object["spec"])
	}
	if !diags.HasErrors() {
		diags.Add(v.checkKinds(program, object)...)
	}
	if changed && !diags.HasErrors() {
		diags.Add(v.checkDeletion(ctx, program, req.User)...)
	}
	if diags.HasErrors() {
		return Answer{Message: refusal(diags.Errors())}
	}
	res := Answer{Allowed: true}
	res.Warnings = appendWarnings(res.Warnings, diags.Warnings())
	return res
}

// checkDeletion reports the kinds that the cleanup controller, or the author of a namespaced policy, may not delete or list. Without an
// author it checks only the controller.
func (v *Reviewer) checkDeletion(ctx context.Context, p *policy.Program, author *policy.User) diag.List {
	var diags diag.List
	ask := v.newRights()
	check := func(who string, user *policy.User, t policy.Target) {
		field := matchField(&t)
		found, err := v.deleted(t, user == author)
		if err != nil {
			diags.Errorf(field, "the kind %s cannot be looked up: %v", named(t), err)
			return
		}
		names := t.OnlyNames() // a run lists by these names, so rights on these names are sufficient
		if names == nil {
			names = []string{""}
		}
		for _, verb := range []string{"delete", "list"} {
			for _, r := range found {
				for _, name := range names {
					allowed, _, err := ask.allowed(ctx, world.AccessRequest{
						Username: user.Username, UID: user.UID, Groups: user.Groups, Extra: user.Extra,
						Verb: verb, Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: p.Namespace, Name: name,
					})
					switch {
					case err != nil:
						diags.Errorf(field, "the rights of %s cannot be looked up: %v", user.Username, err)
						diags.Code(diag.UnknownRights, user.Username)
					case !allowed:
						diags.Errorf(field, "%s has no permission to %s kind %s", who, verb, named(t))
						diags.Code(diag.MissingRights, user.Username)
					default:
						continue
					}
					return
				}
			}
		}
	}
	for _, r := range p.Rules {
		for _, t := range r.Targets {
			if !t.Main() {
				continue // a subresource is not an object
			}
			if v.Accounts.Cleanup != "" {
				check("cleanup controller", serviceAccount(v.Accounts.Cleanup), t)
			}
			if p.Namespace != "" && author != nil {
				check(fmt.Sprintf("the author of the policy '%s'", author.Username), author, t)
			}
		}
	}
	return diags
}

// deleted returns the resources that a policy with the target deletes. later includes kinds that may be defined later: the author needs the
// rights now, since there is no review then.
func (v *Reviewer) deleted(t policy.Target, later bool) ([]apischema.GroupVersionResource, error) {
	switch {
	case t.Wild():
		return []apischema.GroupVersionResource{{Group: "*", Version: "*", Resource: "*"}}, nil
	case t.ByResource() && t.Group == "*":
		return []apischema.GroupVersionResource{{Group: "*", Version: "*", Resource: t.Resource}}, nil
	}
	served, err := v.Discovery.Find(t.WithoutSubresource())
	if err != nil {
		return nil, err
	}
	var found []apischema.GroupVersionResource
	for _, r := range served {
		found = append(found, r.GVR())
	}
	switch {
	case len(found) > 0 || !later:
	case !t.ByResource():
		found = []apischema.GroupVersionResource{{Group: t.Group, Version: "*", Resource: "*"}}
	case !kinds.KubernetesGroup(t.Group): // no further kinds are added to groups of Kubernetes
		found = []apischema.GroupVersionResource{{Group: t.Group, Version: "*", Resource: t.Resource}}
	}
	return found, nil
}

// matchField returns the field of a policy that has the target.
func matchField(t *policy.Target) string {
	if t.ByResource() {
		return "spec.matchConstraints"
	}
	return "spec.match"
}

// named returns the kind or the resource of a target.
func named(t policy.Target) string { return cmp.Or(t.Kind, t.Resource) }
