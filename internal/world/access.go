package world

import (
	"context"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/value"
)

// Access checks the rights of users.
type Access interface {
	// Allowed reports whether the request would be allowed, and why. An error means that the result is unknown.
	Allowed(ctx context.Context, r AccessRequest) (allowed bool, reason string, err error)
}

// AccessRequest is an action whose permission is checked: a verb on a resource, or on a Path of the API server.
type AccessRequest struct {
	Username, UID string
	Groups        []string
	Extra         map[string][]string

	Verb                                  string
	Group, Version, Resource, Subresource string
	Namespace, Name                       string
	Path                                  string
}

// Within implements Request.
func (r AccessRequest) Within(reach Reach) (Request, error) {
	if r.Path != "" || !reach.Allows(r.Namespace) {
		return r, &OutOfReachError{"access to " + r.Resource + r.Path, r.Namespace, r.Name, reach.namespace}
	}
	return r, nil
}

// Title implements Request.
func (r AccessRequest) Title() string { return r.Verb + " " + r.Resource }

// Key implements Request.
func (r AccessRequest) Key() Key {
	extra := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(r.Extra)) {
		extra[k] = Canonical(r.Extra[k]...)
	}
	return Key{Asked: value.JSON([]any{
		r.Username, r.UID, Canonical(r.Groups...), extra, r.Verb, r.Group, r.Version, r.Resource, r.Subresource, r.Namespace, r.Name, r.Path,
	})}
}

// permission is an answer of Access.
type permission struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
}

// permissions is Access as a Lookup.
type permissions Lookup[AccessRequest, permission]

// Allowed implements Access.
func (p permissions) Allowed(ctx context.Context, r AccessRequest) (bool, string, error) {
	answer, err := p(ctx, r)
	return answer.Allowed, answer.Reason, err
}

func passAccess(d door, next Access) Access {
	var p permissions
	if next != nil {
		p = func(ctx context.Context, r AccessRequest) (a permission, err error) {
			a.Allowed, a.Reason, err = next.Allowed(ctx, r)
			return a, err
		}
	}
	if pass(d, "Access", "access", "ACCESS ", &p); p == nil {
		return nil
	}
	return p
}
