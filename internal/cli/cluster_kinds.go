package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/wildcard"
	"github.com/ephor-dev/ephor/internal/world"
)

// servedKind is a kind of objects that a cluster serves: a resource, or a subresource of one.
type servedKind struct {
	gvr        schema.GroupVersionResource
	kind       string // of the resource, also for subresources
	namespaced bool
	preferred  bool // its version is the one that the group prefers
	list, get  bool
	// sub is the name of a subresource, and own the kind of its objects.
	sub string
	own schema.GroupVersionKind
}

func (k servedKind) apiVersion() string { return k.gvr.GroupVersion().String() }

// served are the kinds of one cluster, groups in the API server's order.
type served struct{ kinds []servedKind }

// servedBy asks the API server. A group that cannot be listed (a broken aggregated API) does not hide the others.
func servedBy(from discovery.ServerResourcesInterface) (*served, error) {
	groups, lists, err := from.ServerGroupsAndResources()
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	preferred := map[string]bool{}
	for _, g := range groups {
		preferred[g.PreferredVersion.GroupVersion] = true
	}
	s := &served{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		s.add(gv, list.APIResources, preferred[list.GroupVersion])
	}
	return s, nil
}

func (s *served) add(gv schema.GroupVersion, resources []metav1.APIResource, preferred bool) {
	kinds := map[string]string{}
	for i := range resources {
		kinds[resources[i].Name] = resources[i].Kind
	}
	for i := range resources {
		r := &resources[i]
		name, sub, _ := strings.Cut(r.Name, "/")
		k := servedKind{
			gvr: gv.WithResource(name), kind: kinds[name], namespaced: r.Namespaced, preferred: preferred, sub: sub,
			list: slices.Contains(r.Verbs, "list"), get: slices.Contains(r.Verbs, "get"),
			own: schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		}
		if k.own.Version == "" {
			k.own.Group, k.own.Version = gv.Group, gv.Version
		}
		if k.kind != "" {
			s.kinds = append(s.kinds, k)
		}
	}
}

// wanted are the kinds that a selector of a policy stands for, each in one version: the one that its group prefers if the
// selector allows that. Of subresources only those that can be read are among them.
func (s *served) wanted(t policy.Target) []servedKind {
	var out []servedKind
	for _, k := range s.kinds {
		if !t.ByResource() && !wildcard.Match(t.Kind, k.kind) || !wildcard.Match(t.Group, k.gvr.Group) || !wildcard.Match(t.Version, k.gvr.Version) {
			continue
		}
		if t.Resource != "" && t.Resource != "*" && t.Resource != k.gvr.Resource {
			continue
		}
		if t.Subresource == "" && (k.sub != "" || !k.list) || t.Subresource != "" && (k.sub == "" || !k.get || !wildcard.Match(t.Subresource, k.sub)) {
			continue
		}
		at := slices.IndexFunc(out, func(o servedKind) bool {
			return o.gvr.Group == k.gvr.Group && o.gvr.Resource == k.gvr.Resource && o.sub == k.sub
		})
		switch {
		case at < 0:
			out = append(out, k)
		case k.preferred && !out[at].preferred:
			out[at] = k
		}
	}
	return out
}

// all are the kinds that the policies are about, in the order of the policies.
func (s *served) all(programs []*policy.Program) []servedKind {
	var out []servedKind
	for _, p := range programs {
		for _, r := range p.Rules {
			for _, t := range r.Targets {
				for _, k := range s.wanted(t) {
					if !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	return out
}

// Namespaced implements world.Kinds.
func (s *served) Namespaced(_ context.Context, apiVersion, kind string) (bool, error) {
	for _, k := range s.kinds {
		if k.sub == "" && k.kind == kind && k.apiVersion() == apiVersion {
			return k.namespaced, nil
		}
	}
	return false, fmt.Errorf("paramKind kind `%s, Kind=%s` not known", apiVersion, kind)
}

// Find implements world.KindFinder.
func (s *served) Find(_ context.Context, apiVersion, kind string) ([]world.Kind, error) {
	group, version, named := strings.Cut(apiVersion, "/")
	switch {
	case !named && apiVersion == "*":
		group, version = "*", "*"
	case !named:
		group, version = "", apiVersion
	}
	var out []world.Kind
	for _, k := range s.wanted(policy.Target{Group: group, Version: version, Kind: kind}) {
		out = append(out, world.Kind{APIVersion: k.apiVersion(), Kind: k.kind})
	}
	return out, nil
}
