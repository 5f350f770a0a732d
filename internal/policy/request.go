package policy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/taped"
)

// Operation is the operation of an admission request.
type Operation string

// The operations of admission.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// User is the requester.
type User struct {
	Username string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

// Roles are the requester's roles (`namespace:name`) and cluster roles.
type Roles struct{ Roles, ClusterRoles []string }

// RequestOrigin tells where a Request comes from.
type RequestOrigin uint8

// The origins of a request.
const (
	FromAdmission RequestOrigin = iota
	FromScan
	FromCLI
)

// Review is what is evaluated: one object or event of an admission review, a scan or the command line. It is an immutable value: a request about
// something else has a copy of it.
type Review struct {
	Origin    RequestOrigin
	UID       string
	Operation Operation
	// GVK is the kind of the request's resource; for a subresource it is the kind of its parent (Deployment for deployments/scale).
	// RequestGVK is the kind of the object in the request.
	GVK, RequestGVK schema.GroupVersionKind
	GVR             schema.GroupVersionResource
	Subresource     string
	// Asked is the original request, if it differs, because the API server converts objects before it sends them.
	Asked           Asked
	Namespace, Name string
	// Payload is the type of the object if it is not a Kubernetes object. Such requests exist only on the command line.
	Payload Payload
	// Object is nil on DELETE; OldObject is nil on CREATE.
	Object, OldObject *value.Doc
	// Trigger: the existing object is the trigger of work that no request caused, such as a change of the source of a copy. As in a request, its name
	// and kind are known.
	Trigger bool
	// User is nil if there is no requester, as in a scan.
	User    *User
	DryRun  bool
	Options any
	// Held: the conditions of the rule held at admission, for work whose request lacks content that they read (WorkPlan.OldContent).
	Held bool
	// Conf holds the cluster settings that rules use.
	Conf Conf

	// Given returns values of variables for the rule r of p; nil for none. They exist only on the command line.
	Given func(p *Program, r *Rule) *Given
	// ResolveRoles looks up the requester's roles. If it is nil, a rule that needs roles ends in an error. It is called at most once.
	ResolveRoles func(context.Context) (Roles, error)
	// ResolveNamespace looks up the labels of the request's namespace. If it is nil, a rule that needs them ends in an error. It is
	// called at most once.
	ResolveNamespace func(context.Context) (map[string]string, error)

	// Trace records the evaluation; nil records nothing.
	Trace *trace.Log
	// Tape records the lookups of the request, or holds the recorded answers of an earlier evaluation. nil does neither.
	Tape *taped.Tape
}

// Request is a Review in evaluation, with what was looked up and computed for it, each at most once. Goroutines may share it.
type Request struct {
	Review

	unforeseen atomic.Bool
	tags       atomic.Pointer[Tags]

	roles     onceResult[Roles]
	namespace onceResult[map[string]string]
	document  onceResult[map[string]any]
	withRoles onceResult[map[string]any]
	images    onceResult[map[string]any]
	imageList onceResult[[]imageref.Image]
}

// Asked holds the original kind, resource and subresource: requestKind, requestResource and requestSubResource of an admission request.
type Asked struct {
	GVK         schema.GroupVersionKind
	GVR         schema.GroupVersionResource
	Subresource string
}

// AskedFor returns the kind and resource of the original request. By default they are those of the request.
func (r *Request) AskedFor() Asked {
	a := r.Asked
	if a.GVK.Empty() {
		a.GVK = r.RequestGVK
	}
	if a.GVR.Empty() {
		a.GVR, a.Subresource = r.GVR, r.Subresource
	}
	return a
}

// Conf holds settings that affect the variables of rules. The zero Conf holds the defaults.
type Conf struct {
	// MaxContextSize limits the size in bytes of the data that the context entries of one rule load. 0 means DefaultContextSize; a negative
	// value means no limit.
	MaxContextSize int
	// Images holds the defaults for image references without a registry.
	Images imageref.Defaults
	// Expand names the cluster-wide policies for which variables inside data are evaluated. It is read-only.
	Expand map[string]bool

	// CompareExceptions: scans also evaluate exempt objects without exceptions (PropertyWithoutException).
	CompareExceptions bool

	settings *settings.Settings // for Filtered; nil without a cluster
}

// Filtered reports whether the resourceFilters exclude a resource from every policy. sub is the subresource or empty.
func (c *Conf) Filtered(gvk schema.GroupVersionKind, sub, namespace, name string) bool {
	return c.settings != nil && c.settings.Filtered(gvk, sub, namespace, name)
}

// ConfOf returns the settings that rules use.
func ConfOf(s *settings.Settings) Conf {
	c := Conf{MaxContextSize: int(s.MaxContextSize), Images: imageref.Defaults{Registry: s.DefaultRegistry, Bare: !s.MutateRegistry}, Expand: s.ExpandData, CompareExceptions: s.Exceptions.Compare, settings: s}
	if c.MaxContextSize <= 0 {
		c.MaxContextSize = -1
	}
	return c
}

type onceResult[T any] struct {
	once sync.Once
	val  T
	err  error
}

func (o *onceResult[T]) get(f func() (T, error)) (T, error) {
	o.once.Do(func() { o.val, o.err = f() })
	return o.val, o.err
}

// Subject returns the object that match blocks evaluate: the new object, or the old one on DELETE. It returns nil if there is no object
// (CONNECT).
func (r *Request) Subject() (map[string]any, error) {
	d := r.Object
	if d == nil || r.Operation == Delete {
		if r.OldObject != nil {
			d = r.OldObject
		}
	}
	return d.Map()
}

// NoRequester is the requester of CreationOfOld: a user with an empty name and no groups, both of which expressions may read.
var NoRequester = &User{}

// CreationOfOld returns a request that creates the old object of an update, by a user whom no rule matches. Its evaluation shows whether
// a violation existed before the update. It has no subresource, since an object is created as a whole: a rule on Pod/ephemeralcontainers
// does not match it, so a denial by that rule stays in force.
func (r *Request) CreationOfOld() *Request {
	old := r.Review
	old.Operation, old.Subresource, old.User = Create, "", NoRequester
	old.Object, old.OldObject = r.OldObject, nil
	old.ResolveRoles = func(context.Context) (Roles, error) { return Roles{}, nil }
	old.ResolveNamespace = r.NamespaceLabels
	old.Held, old.Trace = false, nil // both are about the request itself
	return &Request{Review: old}
}

// WithObject returns a copy of the request with another object, the result of a mutation. It keeps resolved roles and labels.
func (r *Request) WithObject(object *value.Doc) *Request {
	out := &Request{Review: r.Review}
	out.Object, out.ResolveRoles, out.ResolveNamespace = object, r.Roles, r.NamespaceLabels
	out.tags.Store(r.Tags())
	return out
}

// Unforeseen reports whether a rule evaluated a query inside a value: a template in a context variable of the author, or in data if
// Conf.Expand allows it. A partial object may lack fields that such a query reads.
func (r *Request) Unforeseen() bool { return r.unforeseen.Load() }

// NoteUnforeseen must be called before queries that were found inside values are evaluated.
func (r *Request) NoteUnforeseen() {
	if r.Object.Partial() {
		r.unforeseen.Store(true)
	}
}

// Roles returns the requester's roles. They are resolved at most once.
func (r *Request) Roles(ctx context.Context) (Roles, error) {
	return r.roles.get(func() (Roles, error) {
		if r.ResolveRoles == nil && r.User != nil {
			return Roles{}, fmt.Errorf("the roles of user %s: %w", r.User.Username, world.ErrUnavailable)
		}
		if r.ResolveRoles == nil {
			return Roles{}, nil // without a requester there are no roles
		}
		return r.ResolveRoles(ctx)
	})
}

// NamespaceLabels returns the labels of the request's namespace, or nil for cluster-scoped objects. They are resolved at most once.
func (r *Request) NamespaceLabels(ctx context.Context) (map[string]string, error) {
	return r.namespace.get(func() (map[string]string, error) {
		if r.Namespace == "" {
			return nil, nil
		}
		if r.ResolveNamespace == nil {
			return nil, fmt.Errorf("the labels of namespace %s: %w", r.Namespace, world.ErrUnavailable)
		}
		return r.ResolveNamespace(ctx)
	})
}

// ServiceAccount splits system:serviceaccount:⟨namespace⟩:⟨name⟩. Both results are empty for other users.
func (r *Request) ServiceAccount() (namespace, name string) {
	if r.User == nil {
		return "", ""
	}
	rest, ok := strings.CutPrefix(r.User.Username, "system:serviceaccount:")
	if !ok {
		return "", ""
	}
	namespace, name, ok = strings.Cut(rest, ":")
	if !ok {
		return "", ""
	}
	return namespace, name
}

// Document returns the value of the variable `request`. It is computed at most once. With roles set, it also holds request.roles and
// request.clusterRoles, which must be resolved. On DELETE `object` is the old object, since request.object then means request.oldObject.
func (r *Request) Document(ctx context.Context, roles bool) (map[string]any, error) {
	if !roles {
		return r.document.get(func() (map[string]any, error) { return r.makeDocument() })
	}
	return r.withRoles.get(func() (map[string]any, error) {
		doc, err := r.makeDocument()
		if err != nil {
			return nil, err
		}
		rr, err := r.Roles(ctx)
		if err != nil {
			return nil, err
		}
		doc["roles"] = stringList(rr.Roles)
		doc["clusterRoles"] = stringList(rr.ClusterRoles)
		return doc, nil
	})
}

// Images returns the value of the variable `images`. It is read from the object at most once.
func (r *Request) Images() (map[string]any, error) {
	return r.images.get(func() (map[string]any, error) {
		images, err := r.ImageList()
		if err != nil {
			return nil, err
		}
		return imageref.Document(images), nil
	})
}

// ImageList returns the images of the object's containers. They are found at most once. The list is shared and must not be changed.
func (r *Request) ImageList() ([]imageref.Image, error) {
	return r.imageList.get(func() ([]imageref.Image, error) {
		object, err := r.Subject()
		if err != nil {
			return nil, err
		}
		return r.Conf.Images.Find(r.GVK.Kind, object)
	})
}

// ObjectOrOld returns the object, or the old object on DELETE, which has no object.
func (r *Request) ObjectOrOld() (any, error) {
	object, err := r.Object.Value()
	if err == nil && r.Operation == Delete && object == nil {
		return r.OldObject.Value()
	}
	return object, err
}

// RequestFields are the fields of the variable `request`.
var RequestFields = []string{
	"operation", "namespace", "object", "oldObject", "uid", "name", "subResource", "dryRun", "options", "kind", "requestKind", "resource",
	"requestResource", "requestSubResource", "userInfo", "roles", "clusterRoles",
}

func (r *Request) makeDocument() (map[string]any, error) {
	object, err := r.ObjectOrOld()
	if err != nil {
		return nil, err
	}
	old, err := r.OldObject.Value()
	if err != nil {
		return nil, err
	}
	doc := map[string]any{
		"operation": string(r.Operation),
		"namespace": r.Namespace,
		"object":    object,
		"oldObject": old,
	}
	if r.Origin == FromScan && !r.Trigger {
		return doc, nil // other admission fields do not exist in a scan
	}
	doc["name"] = r.Name
	if r.Origin == FromScan {
		doc["kind"], doc["requestKind"] = KindDocument(r.RequestGVK), KindDocument(r.RequestGVK)
		doc["resource"], doc["requestResource"] = ResourceDocument(r.GVR), ResourceDocument(r.GVR)
		doc["subResource"], doc["requestSubResource"] = "", ""
		return doc, nil
	}
	doc["uid"] = r.UID
	doc["subResource"] = r.Subresource
	doc["dryRun"] = r.DryRun
	doc["options"] = r.Options
	asked := r.AskedFor()
	doc["kind"], doc["requestKind"] = KindDocument(r.RequestGVK), KindDocument(asked.GVK)
	doc["resource"], doc["requestResource"] = ResourceDocument(r.GVR), ResourceDocument(asked.GVR)
	doc["requestSubResource"] = asked.Subresource
	if r.User != nil {
		doc["userInfo"] = r.User.document()
	}
	return doc, nil
}

// KindDocument returns a kind in the form of an admission request.
func KindDocument(k schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

// ResourceDocument returns a resource in the form of an admission request.
func ResourceDocument(r schema.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}

func (u *User) document() map[string]any {
	doc := map[string]any{"username": u.Username, "groups": stringList(u.Groups)}
	if u.UID != "" {
		doc["uid"] = u.UID
	}
	if len(u.Extra) > 0 {
		extra := make(map[string]any, len(u.Extra))
		for k, v := range u.Extra {
			extra[k] = stringList(v)
		}
		doc["extra"] = extra
	}
	return doc
}

func stringList(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// Payload is a type of documents that are not Kubernetes objects.
type Payload uint8

// The types: any JSON document, an HTTP request, and a check request of Envoy.
const (
	NoPayload Payload = iota
	JSONPayload
	HTTPPayload
	EnvoyPayload
)

// Fits reports whether a rule for this type applies to a request of another type: a rule for JSON documents also applies to Kubernetes
// objects.
func (p Payload) Fits(request Payload) bool {
	return p == request || p == JSONPayload && request == NoPayload
}

// String returns the plural name of documents of this type, and One the singular.
func (p Payload) String() string { return payloadWords[p][0] }

// One returns the singular; see String.
func (p Payload) One() string { return payloadWords[p][1] }

var payloadWords = [...][2]string{
	NoPayload: {"objects of a cluster", "an object of a cluster"}, JSONPayload: {"JSON documents (evaluation.mode JSON)", "a JSON document"},
	HTTPPayload: {"HTTP requests (evaluation.mode HTTP)", "an HTTP request"}, EnvoyPayload: {"check requests of Envoy (evaluation.mode Envoy)", "a check request of Envoy"},
}
