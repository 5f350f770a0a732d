package world

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/kinds"
)

// Objects reads single Kubernetes objects as JSON values; for a missing object, IsNotFound is true for the error.
type Objects Lookup[ObjectRequest, map[string]any]

// Get reads an object.
func (o Objects) Get(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	return o(ctx, ObjectRequest{Kind{apiVersion, kind}, namespace, name})
}

// ObjectRequest identifies an object.
type ObjectRequest struct {
	Kind
	Namespace, Name string
}

// Within implements Request.
func (r ObjectRequest) Within(reach Reach) (Request, error) {
	return r, reach.within(r.Kind.Kind, r.Namespace, r.Name)
}

// Title implements Request.
func (r ObjectRequest) Title() string { return r.Kind.Kind + " " + r.Namespace + "/" + r.Name }

// Key implements Request.
func (r ObjectRequest) Key() Key {
	return Key{Asked: Canonical(r.APIVersion, r.Kind.Kind, r.Namespace, r.Name), Secrets: kinds.IsSecret(r.APIVersion, r.Kind.Kind)}
}

// Lists reads all objects of a kind that a query selects.
type Lists = Lookup[Query, []map[string]any]

// Query selects objects of a kind.
type Query struct {
	APIVersion, Kind string
	Namespace        string // empty: everywhere
	Selector         string // a label selector in its text form; empty: all
	// Name is the name of the objects; empty for any. A right to list may be limited to names.
	Name string
}

// Within implements Request.
func (q Query) Within(reach Reach) (Request, error) { return q, reach.within(q.Kind, q.Namespace, "*") }

// Title implements Request.
func (q Query) Title() string { return q.Kind + " " + q.Namespace }

// Key implements Request.
func (q Query) Key() Key {
	return Key{Asked: Canonical(q.APIVersion, q.Kind, q.Namespace, q.Selector, q.Name), Secrets: kinds.IsSecret(q.APIVersion, q.Kind)}
}

// Namespaces reads namespaces. One that cannot be read is an error, never an empty answer.
type Namespaces struct {
	Labels Lookup[NamespaceRequest, map[string]string]
	// Object reads the whole Namespace as a JSON value. The command line returns nil for an unknown one.
	Object Lookup[NamespaceRequest, map[string]any]
}

// NamespaceRequest is the name of a namespace.
type NamespaceRequest string

// Within implements Request.
func (r NamespaceRequest) Within(reach Reach) (Request, error) {
	if !reach.Allows(string(r)) {
		return r, &OutOfReachError{"Namespace", "", string(r), reach.namespace}
	}
	return r, nil
}

// Title implements Request.
func (r NamespaceRequest) Title() string { return string(r) }

// Key implements Request.
func (r NamespaceRequest) Key() Key { return keyOf(string(r)) }

// OutOfReachError is the error for a request for an object outside the policy's namespace.
type OutOfReachError struct{ Kind, Namespace, Name, Reach string }

func (e *OutOfReachError) Error() string {
	return fmt.Sprintf("%s %s/%s is out of reach: the policy sees only the namespace %s", e.Kind, e.Namespace, e.Name, e.Reach)
}

// within returns an error for an object that is not in reach.
func (r Reach) within(kind, namespace, name string) error {
	if r.Allows(namespace) {
		return nil
	}
	return &OutOfReachError{kind, namespace, name, r.namespace}
}

// ObjectID returns a text that identifies an object of the kind. It is the UID of a stored object: one that is served in two groups, such as
// an Event, is one object.
func ObjectID(k Kind, object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	if uid, _ := metadata["uid"].(string); uid != "" {
		return uid
	}
	return fmt.Sprint(k.APIVersion, "/", k.Kind, "/", metadata["namespace"], "/", metadata["name"])
}
