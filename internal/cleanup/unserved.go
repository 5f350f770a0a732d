package cleanup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/policy"
)

// unserved finds what a policy names and the API server does not serve. A policy that names resources names each combination of its
// groups, versions and resources, and means those that exist: a resource is missing when no group has it.
type unserved struct {
	order []string
	first map[string]*policy.Target // by kind or resource; nil for what is served
}

// add takes in a target, for which so many resources were found.
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

// failures are what is not served.
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
		out = append(out, Failure{
			Object: Object{
				Kind:     schema.GroupVersionKind{Group: t.Group, Version: t.Version, Kind: t.Kind},
				Resource: schema.GroupVersionResource{Group: t.Group, Version: t.Version, Resource: t.Resource},
			},
			Err: fmt.Errorf("the API server serves no %s", what),
		})
	}
	return out
}
