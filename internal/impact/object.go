package impact

import (
	"slices"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Existing returns a request that would create an existing object.
func Existing(k discovery.Resource, object map[string]any) Record {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	at := k.Kind + "/" + name
	if namespace != "" {
		at = namespace + "/" + at
	}
	if k.Group == "" && k.Resource == "namespaces" {
		namespace = name // as in the review of a Namespace
	}
	return Record{At: at, Object: &policy.Request{Review: policy.Review{
		Origin: policy.FromAdmission, Operation: policy.Create, GVK: k.GVK(), RequestGVK: k.GVK(), GVR: k.GVR(),
		Namespace: namespace, Name: name, Object: value.Of(object),
	}}}
}

// Deferred reports whether some rule has work to do after the answer.
func Deferred(programs []*policy.Program) bool {
	return slices.ContainsFunc(programs, func(p *policy.Program) bool {
		return slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool {
			return r.Stage.Has(policy.StageGenerate | policy.StageMutateExisting)
		})
	})
}
