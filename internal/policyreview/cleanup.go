package policyreview

import (
	"cmp"
	"context"
	"fmt"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// Cleanup accepts a cleanup policy when it compiles, when its kinds can be what it says, and when the cleanup
// controller may list and delete them; of a namespaced one also its author, who must not get deleted what he
// may not delete himself (S7 in docs/threat-model.md).
func (v *Reviewer) Cleanup(ctx context.Context, req *policy.Request) Answer {
	if req.Subresource != "" || req.Operation == policy.Delete {
		return Answer{Allowed: true} // a status, of the controller's own
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

// checkDeletion finds the kinds that the cleanup controller, or the author of a namespaced policy, may not delete or list.
func (v *Reviewer) checkDeletion(ctx context.Context, p *policy.Program, author *policy.User) diag.List {
	var diags diag.List
	ask := v.newRights()
	check := func(who string, user *policy.User, t policy.Target) {
		found := []apischema.GroupVersionResource{{Group: "*", Version: "*", Resource: "*"}} // what wildcards may come to mean
		if !t.Wild() {
			served, err := v.Discovery.Find(t)
			if err != nil {
				diags.Errorf("spec.match", "the kind %s cannot be looked up: %v", named(t), err)
				return
			}
			found = nil
			for _, r := range served {
				found = append(found, r.GVR())
			}
			if len(found) == 0 && user == author { // its definition may come later, when there is no review
				found = []apischema.GroupVersionResource{{Group: t.Group, Version: "*", Resource: "*"}}
			}
		}
		names := t.OnlyNames() // a run lists by these names, for which a right that is limited to them is enough
		if names == nil {
			names = []string{""}
		}
		for _, verb := range []string{"delete", "list"} {
			for _, r := range found {
				for _, name := range names {
					allowed, err := ask.allowed(ctx, world.AccessRequest{
						Username: user.Username, UID: user.UID, Groups: user.Groups, Extra: user.Extra,
						Verb: verb, Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: p.Namespace, Name: name,
					})
					switch {
					case err != nil:
						diags.Errorf("spec.match", "the rights of %s cannot be looked up: %v", user.Username, err)
						diags.Code(diag.UnknownRights, user.Username)
					case !allowed:
						diags.Errorf("spec.match", "%s has no permission to %s kind %s", who, verb, named(t))
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
			if v.Accounts.Cleanup != "" {
				check("cleanup controller", serviceAccount(v.Accounts.Cleanup), t)
			}
			if p.Namespace != "" {
				check(fmt.Sprintf("the author of the policy '%s'", author.Username), author, t)
			}
		}
	}
	return diags
}

// named is the kind or the resource that a target names.
func named(t policy.Target) string { return cmp.Or(t.Kind, t.Resource) }
