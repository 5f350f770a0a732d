package cleanup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

// unserved finds the kinds and resources of a policy that the API server does not serve. A policy by resource selects the
// existing combinations of its groups, versions and resources, so a resource is missing only if no group serves it.
type unserved struct {
	order []string
	first map[string]*policy.Target // by kind or resource; nil if served
}

// add records a target and the number of resources that were found for it.
func (u *unserved) add(t *policy.Target, found int) {
	name := t.String()
	if t.ByResource() {
		name = t.Resource
	}
	if u.first == nil {
		u.first = map[string]*policy.Target{}
	}
	if _, known := u.first[name]; !known {
		u.order = append(u.order, name)
		u.first[name] = t
	}
	if found > 0 {
		u.first[name] = nil
	}
}

// failures returns a Failure for each kind or resource that is not served.
func (u *unserved) failures() (out []Failure) {
	for _, name := range u.order {
		t := u.first[name]
		if t == nil {
			continue
		}
		what := "kind " + t.Kind
		if t.ByResource() {
			what = "resource " + t.Resource
		}
		out = append(out, Failure{Object: objectOf(t), Err: fmt.Errorf("the API server serves no %s", what)})
	}
	return out
}

// objectOf returns the object without a name that stands for the whole kind of a target.
func objectOf(t *policy.Target) Object {
	return Object{
		Kind:     schema.GroupVersionKind{Group: t.Group, Version: t.Version, Kind: t.Kind},
		Resource: schema.GroupVersionResource{Group: t.Group, Version: t.Version, Resource: t.Resource},
	}
}
