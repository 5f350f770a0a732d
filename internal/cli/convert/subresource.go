package convert

import (
	"cmp"
	"slices"

	gvk "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
)

// subresource is a subresource that a rule names, and the object of requests for it.
type subresource struct {
	name       string
	parent     gvk.GroupVersionKind
	object     schema.Found
	operations []policy.Operation // those that the rule names; empty for all
}

// operation returns the operation of requests for the subresource: the API's, unless the rule names only others.
func (s *subresource) operation() policy.Operation {
	usual := s.usual()
	if len(s.operations) > 0 && !slices.Contains(s.operations, usual) {
		return s.operations[0]
	}
	return usual
}

// usual returns the operation of the requests that the API has for the subresource.
func (s *subresource) usual() policy.Operation {
	switch s.name {
	case "exec", "attach", "portforward", "proxy":
		return policy.Connect
	case "binding", "eviction", "token":
		return policy.Create
	}
	return policy.Update
}

// optionsOf are the kinds of the objects of requests for subresources, if they are not the kind of the resource.
var optionsOf = map[string]gvk.GroupVersionKind{
	"exec":        {Version: "v1", Kind: "PodExecOptions"},
	"attach":      {Version: "v1", Kind: "PodAttachOptions"},
	"portforward": {Version: "v1", Kind: "PodPortForwardOptions"},
	"binding":     {Version: "v1", Kind: "Binding"},
	"eviction":    {Group: "policy", Version: "v1", Kind: "Eviction"},
	"scale":       {Group: "autoscaling", Version: "v1", Kind: "Scale"},
}

// parents are the kinds that stand for all kinds with a subresource; Pods stand for those with any other.
var parents = map[string]string{"scale": "Deployment", "approval": "CertificateSigningRequest", "token": "ServiceAccount", "finalize": "Namespace"}

// addSubresource adds a subresource that a rule names, such as Pod/exec. The status stands for all subresources of a kind.
func (s *sampler) addSubresource(known *schema.Kinds, t policy.Target) {
	all := t.Subresource == "*"
	if all {
		t.Subresource = "status"
	}
	if t.Kind == "" || t.Kind == "*" {
		t.Kind = cmp.Or(parents[t.Subresource], "Pod")
	}
	if t.Kind == "Pod" && (all || t.Subresource == debug || t.Subresource == resize) { // the attempts for a Pod have these subresources
		s.addKinds(known, policy.Target{Group: t.Group, Version: t.Version, Kind: t.Kind})
	}
	if t.Subresource == debug || t.Subresource == resize {
		return
	}
	s.addParents(known, t)
}

// addParents adds a subresource of each kind that a target matches.
func (s *sampler) addParents(known *schema.Kinds, t policy.Target) {
	all := &sampler{}
	all.addKinds(known, policy.Target{Group: t.Group, Version: t.Version, Kind: t.Kind})
	for _, parent := range all.kinds {
		made := subresource{name: t.Subresource, parent: parent.GroupVersionKind, object: parent, operations: t.Operations}
		if kind, other := optionsOf[t.Subresource]; other {
			made.object = schema.Found{GroupVersionKind: kind, Type: schema.Any}
			if found := known.Find(kind.Group, kind.Version, kind.Kind, ""); len(found) == 1 {
				made.object = found[0]
			}
		}
		for i := range s.subresources {
			if s.subresources[i].name == made.name && s.subresources[i].parent == made.parent {
				return
			}
		}
		s.subresources = append(s.subresources, made)
	}
}

// of returns the request for an object of the subresource.
func (s *subresource) of(object map[string]any, i int, user *policy.User) attempt {
	out := attempt{what: "request for " + s.parent.Kind + "/" + s.name, operation: s.operation(), subresource: s.name, object: object, user: user, parent: s.parent}
	if out.operation == policy.Update {
		out.object, out.old = stored(object, i), stored(object, i)
	}
	return out
}

// resource returns the resource of the requests.
func (a *attempt) resource() gvk.GroupVersionResource {
	return gvk.GroupVersionResource{Group: a.parent.Group, Version: a.parent.Version, Resource: kinds.Plural(a.parent.Kind)}
}
