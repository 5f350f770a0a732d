package admission

import (
	"context"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/globalentry"
	"github.com/ephor-dev/ephor/internal/policy"
)

// reviewGlobalContext accepts a GlobalContextEntry when it compiles. Resources that the
// API server does not serve are only a warning, since their definition may come later; the entry is an error until then.
func (s *Server) reviewGlobalContext(_ context.Context, req *policy.Request, _ place) (response, error) {
	if req.Subresource != "" || req.Operation == policy.Delete {
		return response{allowed: true}, nil
	}
	object, err := req.Object.Map()
	if err != nil {
		return response{message: "the entry cannot be read: " + err.Error()}, nil
	}
	if leaves(req, object) {
		return response{allowed: true}, nil
	}
	entry, diags := globalentry.Compile(object)
	if diags.HasErrors() {
		return response{message: refusal(diags.Errors())}, nil
	}
	if r := entry.Resource; r != nil {
		gv, err := apischema.ParseGroupVersion(r.APIVersion)
		if err == nil {
			_, err = s.cluster.KindFor(gv.WithResource(r.Resource))
		}
		if err != nil {
			diags.Warnf("spec.kubernetesResource", "the entry has no data yet: %v", err)
		}
	}
	res := response{allowed: true}
	res.warnings = appendWarnings(res.warnings, diags.Warnings())
	return res, nil
}
