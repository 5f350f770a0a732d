package apiserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// aggregatedType is the content type of aggregated discovery.
const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// SetDown makes an API group of another server unavailable, or available again: its requests fail, and discovery leaves it out.
func (s *Server) SetDown(group string, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		s.down = map[string]bool{}
	}
	s.down[group] = down
}

func (s *Server) isDown(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down[group]
}

// Aggregated switches aggregated discovery on or off.
func (s *Server) Aggregated(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plainDiscovery = !on
}

// paths answers requests for no resource: discovery, the version and health.
func (s *Server) paths(q *Request) *http.Response {
	parts := strings.Split(strings.Trim(q.Path, "/"), "/")
	send := func(v any) *http.Response {
		text, err := json.Marshal(v)
		if err != nil {
			return q.fail(err)
		}
		return q.json(http.StatusOK, text)
	}
	s.mu.Lock()
	aggregated := !s.plainDiscovery && strings.Contains(q.Accept, "as=APIGroupDiscoveryList") && strings.Contains(q.Accept, "v=v2;")
	s.mu.Unlock()
	switch {
	case q.Path == "/livez" || q.Path == "/readyz" || q.Path == "/healthz":
		return q.answer(http.StatusOK, "text/plain; charset=utf-8", io.NopCloser(strings.NewReader("ok")))
	case q.Path == "/version":
		return send(map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
	case aggregated && (q.Path == "/api" || q.Path == "/apis"):
		text, err := json.Marshal(s.groupsV2(q.Path == "/api"))
		if err != nil {
			return q.fail(err)
		}
		return q.answer(http.StatusOK, aggregatedType, io.NopCloser(bytes.NewReader(text)))
	case q.Path == "/api":
		return send(&metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case q.Path == "/apis":
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, name := range s.groups() {
			if name != "" {
				list.Groups = append(list.Groups, s.group(name))
			}
		}
		return send(list)
	case len(parts) == 2 && parts[0] == "apis":
		if g := s.group(parts[1]); len(g.Versions) > 0 {
			g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return send(g)
		}
	case len(parts) == 2 && parts[0] == "api", len(parts) == 3 && parts[0] == "apis":
		group, version := "", parts[1]
		if parts[0] == "apis" {
			group, version = parts[1], parts[2]
		}
		if s.isDown(group) {
			return q.fail(apierrors.NewServiceUnavailable("the server is currently unable to handle the request"))
		}
		if list := s.resources(group, version); len(list.APIResources) > 0 {
			return send(list)
		}
	}
	return q.answer(http.StatusNotFound, "text/plain; charset=utf-8", io.NopCloser(strings.NewReader("404 page not found\n")))
}

// kinds returns all kinds, sorted by group and name.
func (s *Server) kinds() (out []Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		out = append(out, *t.resource)
	}
	slices.SortFunc(out, func(a, b Resource) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Plural, b.Plural)
	})
	return out
}

func (s *Server) groups() (out []string) {
	for _, r := range s.kinds() {
		if !slices.Contains(out, r.Group) {
			out = append(out, r.Group)
		}
	}
	return out
}

// versions returns the versions of a group, the preferred one first.
func (s *Server) versions(group string) (out []string) {
	for _, r := range s.kinds() {
		if r.Group != group {
			continue
		}
		for _, v := range r.Versions {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

func (s *Server) group(name string) metav1.APIGroup {
	g := metav1.APIGroup{Name: name}
	for _, v := range s.versions(name) {
		d := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v}
		if len(g.Versions) == 0 {
			g.PreferredVersion = d
		}
		g.Versions = append(g.Versions, d)
	}
	return g
}

func (s *Server) resources(group, version string) *metav1.APIResourceList {
	gv := metav1.GroupVersion{Group: group, Version: version}
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	for _, r := range s.kinds() {
		if r.Group != group || !slices.Contains(r.Versions, version) {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.Plural, SingularName: strings.ToLower(r.Kind), Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.verbs()})
		if r.Status {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.Plural + "/status", Kind: r.Kind, Namespaced: r.Namespaced, Verbs: []string{"get", "patch", "update"}})
		}
	}
	return list
}

// groupsV2 returns aggregated discovery, of the core group or of all others.
func (s *Server) groupsV2(core bool) *discoveryv2.APIGroupDiscoveryList {
	out := &discoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}}
	for _, name := range s.groups() {
		if (name == "") != core {
			continue
		}
		g := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, version := range s.versions(name) {
			v := discoveryv2.APIVersionDiscovery{Version: version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
			if s.isDown(name) {
				v.Freshness = discoveryv2.DiscoveryFreshnessStale
			}
			for _, r := range s.kinds() {
				if r.Group != name || !slices.Contains(r.Versions, version) || s.isDown(name) {
					continue
				}
				kind := &metav1.GroupVersionKind{Group: name, Version: version, Kind: r.Kind}
				d := discoveryv2.APIResourceDiscovery{Resource: r.Plural, ResponseKind: kind, Scope: discoveryv2.ScopeCluster, SingularResource: strings.ToLower(r.Kind), Verbs: r.verbs()}
				if r.Namespaced {
					d.Scope = discoveryv2.ScopeNamespace
				}
				if r.Status {
					d.Subresources = []discoveryv2.APISubresourceDiscovery{{Subresource: "status", ResponseKind: kind, Verbs: []string{"get", "patch", "update"}}}
				}
				v.Resources = append(v.Resources, d)
			}
			g.Versions = append(g.Versions, v)
		}
		out.Items = append(out.Items, g)
	}
	return out
}
