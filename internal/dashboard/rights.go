package dashboard

import (
	"context"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/world"
)

// maxRightScopes is the maximum number of rights to read objects that are checked for one answer.
const maxRightScopes = 500

// rightScope is the scope of a right: the objects of one resource in a namespace; without a namespace, everywhere.
type rightScope struct{ group, resource, subresource, namespace string }

// rightScopeOf returns the scope of the objects in a recorded request.
func rightScopeOf(r *decision.Record) rightScope {
	p := rightScope{r.Request.Group, r.Request.Resource, r.Subresource, r.Namespace}
	if p.group == "" && p.resource == "namespaces" {
		p.namespace = "" // a request for a Namespace has its own name as the namespace
	}
	return p
}

// reading decides which objects a user may read: the right to list objects includes the right to see a request with one. It is for one
// answer.
type reading struct {
	sessions *sessions
	user     User
	known    map[rightScope]bool
	// denied counts the requests that the user may not see, unasked those in places that are not checked because there are too many.
	denied, unasked int
}

func (s *sessions) reading(one *session) *reading {
	one.mu.Lock()
	defer one.mu.Unlock()
	return &reading{sessions: s, user: one.user, known: map[rightScope]bool{}}
}

// may reports whether the user may see a recorded request, and counts the requests that the user may not see.
func (r *reading) may(ctx context.Context, record *decision.Record) (bool, error) {
	if r.sessions.tokens == nil {
		return true, nil
	}
	p := rightScopeOf(record)
	for _, asked := range []rightScope{{p.group, p.resource, p.subresource, ""}, p} {
		if _, known := r.known[asked]; !known {
			if len(r.known) >= maxRightScopes {
				r.unasked++
				return false, nil
			}
			allowed, err := r.mayList(ctx, asked)
			if err != nil {
				return false, err
			}
			r.known[asked] = allowed
		}
		if r.known[asked] {
			return true, nil
		}
	}
	r.denied++
	return false, nil
}

// withholdLookups takes the lookups out of a recorded request, unless the user may list everything: answers may hold any object of the cluster.
func (r *reading) withholdLookups(ctx context.Context, record *decision.Record) error {
	if r.sessions.tokens == nil || record.Request.Lookups == nil {
		return nil
	}
	everything := rightScope{"*", "*", "", ""}
	allowed, known := r.known[everything]
	if !known {
		var err error
		if allowed, err = r.allowed(ctx, "list", everything); err != nil {
			return err
		}
		r.known[everything] = allowed
	}
	if !allowed {
		request := *record.Request
		request.Lookups = &decision.Lookups{Withheld: true}
		record.Request = &request
	}
	return nil
}

// mayList checks the right to list the objects and, for a subresource, which cannot be listed, also the right to get it.
func (r *reading) mayList(ctx context.Context, p rightScope) (bool, error) {
	listed, err := r.allowed(ctx, "list", rightScope{p.group, p.resource, "", p.namespace})
	if !listed || err != nil || p.subresource == "" {
		return listed, err
	}
	return r.allowed(ctx, "get", p)
}

func (r *reading) allowed(ctx context.Context, verb string, p rightScope) (bool, error) {
	u := &r.user
	allowed, _, err := r.sessions.access.Allowed(ctx, world.AccessRequest{
		Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra,
		Verb: verb, Group: p.group, Version: "*", Resource: p.resource, Subresource: p.subresource, Namespace: p.namespace,
	})
	return allowed, err
}
