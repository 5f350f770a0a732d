package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a kind that the server serves.
type Resource struct {
	Group string
	// Versions are the served versions, the preferred one first. Objects are stored once, and are the same in all versions.
	Versions   []string
	Kind       string
	Plural     string
	Namespaced bool
	// Status: the kind has a status subresource.
	Status bool
	// Generation: changes outside of metadata and status are counted.
	Generation bool
	// Custom kinds cannot be updated without a resource version.
	Custom bool
	// Verbs are the supported verbs; nil for all.
	Verbs []string
}

// GroupResource returns the name of the resource.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Plural}
}

func (r *Resource) gvk(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: version, Kind: r.Kind}
}

// allVerbs are the verbs of a kind that can be stored.
var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

func (r *Resource) verbs() []string {
	if r.Verbs != nil {
		return r.Verbs
	}
	return allVerbs
}

// Options configure a Server.
type Options struct {
	Resources []Resource
	// Defaults sets the defaults of new and changed objects in place; nil for none.
	Defaults func(kind schema.GroupKind, object map[string]any)
	// Dial opens a connection to a Service, for webhooks. Without it no webhook is called.
	Dial func(ctx context.Context, namespace, service string, port int) (net.Conn, error)
	// ShortTokens: the token of a list has expired when the next page is requested.
	ShortTokens bool
	// History is the number of events that the server keeps of each kind; 0 for 500.
	History int
	// NoTrace: the server keeps no list of the requests that it got.
	NoTrace bool
	// CollectAfter is the time after which the controllers of a cluster act: dependents of deleted owners, and the content of deleted
	// namespaces, are deleted.
	CollectAfter time.Duration
}

// Server is an API server. Its methods are safe for concurrent use.
type Server struct {
	options Options
	// Fault decides what goes wrong with a request; nil for nothing. It is called before the request is handled.
	Fault func(*Request) Fault
	// Observed is called after each change that was stored; nil for none. It must not call the server.
	Observed func(Change)
	// Flooded is called when a client sends thousands of equal requests within a minute; nil for nothing. Such a client may do so forever
	// without any time passing.
	Flooded func(*Request)
	// Allowed reports whether a client has a right; nil for everything.
	Allowed func(client, verb string, r schema.GroupResource, namespace string) bool

	mu      sync.Mutex
	version int64
	uids    int64
	names   int64
	tables  map[schema.GroupResource]*table
	clients map[string]*Client
	trace   Trace
	calls   caller
	down    map[string]bool
	// plainDiscovery: discovery is not aggregated.
	plainDiscovery bool
}

// Change is one stored change.
type Change struct {
	Client   string
	Resource schema.GroupResource
	Key      string // namespace/name
	Before   map[string]any
	After    map[string]any // nil if it was deleted
}

// New returns a server with the given kinds and without objects.
func New(o Options) *Server {
	o.History = cmp.Or(o.History, 500)
	s := &Server{options: o, version: 100, trace: Trace{none: o.NoTrace}, tables: map[schema.GroupResource]*table{}, clients: map[string]*Client{}}
	for i := range o.Resources {
		r := o.Resources[i]
		s.tables[r.GroupResource()] = newTable(&r)
	}
	return s
}

// Builtin returns the kinds of Kubernetes that the simulation uses.
func Builtin() []Resource {
	v1 := []string{"v1"}
	create := []string{"create"}
	return []Resource{
		{Versions: v1, Kind: "Namespace", Plural: "namespaces", Status: true},
		{Versions: v1, Kind: "ConfigMap", Plural: "configmaps", Namespaced: true},
		{Versions: v1, Kind: "Secret", Plural: "secrets", Namespaced: true},
		{Versions: v1, Kind: "Service", Plural: "services", Namespaced: true, Status: true},
		{Versions: v1, Kind: "ServiceAccount", Plural: "serviceaccounts", Namespaced: true},
		{Versions: v1, Kind: "Pod", Plural: "pods", Namespaced: true, Status: true, Generation: true},
		{Versions: v1, Kind: "Event", Plural: "events", Namespaced: true},
		{Group: "apps", Versions: v1, Kind: "Deployment", Plural: "deployments", Namespaced: true, Status: true, Generation: true},
		{Group: "networking.k8s.io", Versions: v1, Kind: "NetworkPolicy", Plural: "networkpolicies", Namespaced: true, Generation: true},
		{Group: "rbac.authorization.k8s.io", Versions: v1, Kind: "Role", Plural: "roles", Namespaced: true},
		{Group: "rbac.authorization.k8s.io", Versions: v1, Kind: "RoleBinding", Plural: "rolebindings", Namespaced: true},
		{Group: "rbac.authorization.k8s.io", Versions: v1, Kind: "ClusterRole", Plural: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Versions: v1, Kind: "ClusterRoleBinding", Plural: "clusterrolebindings"},
		{Group: "coordination.k8s.io", Versions: v1, Kind: "Lease", Plural: "leases", Namespaced: true},
		{Group: "events.k8s.io", Versions: v1, Kind: "Event", Plural: "events", Namespaced: true},
		{Group: "admissionregistration.k8s.io", Versions: v1, Kind: "ValidatingWebhookConfiguration", Plural: "validatingwebhookconfigurations", Generation: true},
		{Group: "admissionregistration.k8s.io", Versions: v1, Kind: "MutatingWebhookConfiguration", Plural: "mutatingwebhookconfigurations", Generation: true},
		{Group: "admissionregistration.k8s.io", Versions: v1, Kind: "ValidatingAdmissionPolicy", Plural: "validatingadmissionpolicies", Status: true, Generation: true},
		{Group: "admissionregistration.k8s.io", Versions: v1, Kind: "ValidatingAdmissionPolicyBinding", Plural: "validatingadmissionpolicybindings", Generation: true},
		{Group: "admissionregistration.k8s.io", Versions: v1, Kind: "MutatingAdmissionPolicy", Plural: "mutatingadmissionpolicies", Generation: true},
		{Group: "admissionregistration.k8s.io", Versions: v1, Kind: "MutatingAdmissionPolicyBinding", Plural: "mutatingadmissionpolicybindings", Generation: true},
		{Group: "apiextensions.k8s.io", Versions: v1, Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions", Status: true, Generation: true},
		{Group: "authentication.k8s.io", Versions: v1, Kind: "SelfSubjectReview", Plural: "selfsubjectreviews", Verbs: create},
		{Group: "authentication.k8s.io", Versions: v1, Kind: "TokenReview", Plural: "tokenreviews", Verbs: create},
		{Group: "authorization.k8s.io", Versions: v1, Kind: "SelfSubjectAccessReview", Plural: "selfsubjectaccessreviews", Verbs: create},
		{Group: "authorization.k8s.io", Versions: v1, Kind: "SubjectAccessReview", Plural: "subjectaccessreviews", Verbs: create},
	}
}

// Version returns the resource version of the last change.
func (s *Server) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Objects returns all objects of a kind, sorted by namespace and name. They may not be changed.
func (s *Server) Objects(r schema.GroupResource) (out []map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[r]
	if t == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(t.live)) {
		out = append(out, t.live[key].data)
	}
	return out
}

// Object returns one object, nil if there is none. It may not be changed.
func (s *Server) Object(r schema.GroupResource, namespace, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[r]; t != nil && t.live[keyOf(namespace, name)] != nil {
		return t.live[keyOf(namespace, name)].data
	}
	return nil
}

// Compact forgets the history: tokens of lists and the resource versions of watches that begin later have expired. Watches that run go on.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.log, t.compacted = nil, s.version
	}
}

// Restart ends all watches, as the restart of an API server does.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.endWatches(func(*watcher) bool { return true })
	}
}

// EndWatches ends the watches of a kind.
func (s *Server) EndWatches(r schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[r]; t != nil {
		t.endWatches(func(*watcher) bool { return true })
	}
}

// Watches returns how many watches are open.
func (s *Server) Watches() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		n += len(t.watchers)
	}
	return n
}

// Define adds a kind, or replaces one.
func (s *Server) Define(r Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.define(r)
}

func (s *Server) define(r Resource) {
	if t := s.tables[r.GroupResource()]; t != nil {
		t.resource = &r
		return
	}
	t := newTable(&r)
	t.compacted = s.version
	s.tables[r.GroupResource()] = t
}

// Undefine removes a kind with all of its objects.
func (s *Server) Undefine(r schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undefine(r)
}

func (s *Server) undefine(r schema.GroupResource) {
	t := s.tables[r]
	if t == nil {
		return
	}
	for key := range maps.Clone(t.live) {
		s.remove("", t, key)
	}
	t.endWatches(func(*watcher) bool { return true })
	delete(s.tables, r)
}

// find returns the kind of a request, nil if it is not served.
func (s *Server) find(group, version, plural string) *table {
	t := s.tables[schema.GroupResource{Group: group, Resource: plural}]
	if t == nil || !slices.Contains(t.resource.Versions, version) {
		return nil
	}
	return t
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

func splitKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// after runs a function of a cluster's controllers later.
func (s *Server) after(do func()) {
	time.AfterFunc(cmp.Or(s.options.CollectAfter, time.Second), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
	})
}

func (s *Server) newUID() string {
	s.uids++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids)
}

func metaOf(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

func textOf(m map[string]any, field string) string {
	t, _ := m[field].(string)
	return t
}
