package policyreview

import (
	"context"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/policy"
)

// GlobalContext accepts a GlobalContextEntry if it compiles. Resources that the API server does not serve cause only a warning, since their
// definition may come later; until then reading the entry is an error.
func (v *Reviewer) GlobalContext(ctx context.Context, req *policy.Request) Answer {
	if req.Subresource != "" || req.Operation == policy.Delete {
		return Answer{Allowed: true}
	}
	object, err := req.Object.Map()
	if err != nil {
		return Answer{Message: "the entry cannot be read: " + err.Error()}
	}
	if leaves(req, object) {
		return Answer{Allowed: true}
	}
	entry, diags := globalentry.Compile(object)
	if diags.HasErrors() {
		return Answer{Message: refusal(diags.Errors())}
	}
	if r := entry.Resource; r != nil {
		gv, err := apischema.ParseGroupVersion(r.APIVersion)
		if err == nil {
			_, err = v.Discovery.KindFor(ctx, gv.WithResource(r.Resource))
		}
		if err != nil {
			diags.Warnf("spec.kubernetesResource", "the entry has no data yet: %v", err)
		}
	}
	res := Answer{Allowed: true}
	res.Warnings = appendWarnings(res.Warnings, diags.Warnings())
	return res
}
