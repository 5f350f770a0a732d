package policyreview

import (
	"context"
	"fmt"
	"strings"
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/world"
)

// rights asks the API server about the rights of users. It sends each request once per review, and caches a positive answer for some
// seconds.
type rights struct {
	access    world.Access
	discovery Discovery
	granted   *granted
	now       func() time.Time
	refused   map[string]string // with the reason
}

func (v *Reviewer) newRights() *rights {
	r := &rights{discovery: v.Discovery, granted: &v.granted, now: v.Now, refused: map[string]string{}}
	if v.Root != nil {
		r.access = v.Root.For(world.Cluster()).Access
	}
	return r
}

// served is a resource in the form of a SubjectAccessReview.
type served struct{ Group, Version, Resource, Subresource string }

// resources returns the resources that the API server serves for the kind of a grant; none if it serves no such kind, or if the kind
// contains a variable.
func (a *rights) resources(g policy.Grant) ([]served, error) {
	if !isLiteral(g.APIVersion) || !isLiteral(g.Kind) {
		return nil, nil
	}
	gv, err := apischema.ParseGroupVersion(g.APIVersion)
	if err != nil {
		return nil, nil
	}
	kind, sub, _ := strings.Cut(strings.TrimSpace(g.Kind), "/")
	if g.ByResource {
		return []served{{gv.Group, gv.Version, kind, sub}}, nil
	}
	// A subresource can be granted before it is served.
	found, err := a.discovery.Find(policy.Target{Group: gv.Group, Version: gv.Version, Kind: kind})
	if err != nil {
		return nil, err
	}
	out := make([]served, len(found))
	for i, r := range found {
		out[i] = served{r.Group, r.Version, r.Resource, sub}
	}
	return out, nil
}

// anyOf returns a resource that stands for all resources of the group, if the group is known.
func anyOf(g policy.Grant) served {
	out := served{Group: "*", Version: "*", Resource: "*"}
	if gv, err := apischema.ParseGroupVersion(g.APIVersion); err == nil && isLiteral(g.APIVersion) {
		out.Group = gv.Group
	}
	return out
}

// missing lists the rights of a grant that a user lacks.
type missing struct {
	verbs, reasons []string // the reason for each verb, mostly empty
	namespace      string   // as shown in messages
}

// text returns the message for the missing rights; empty if none are missing.
func (m missing) text(user *policy.User, g policy.Grant) string {
	if len(m.verbs) == 0 {
		return ""
	}
	text := fmt.Sprintf(textRequires, user.Username, strings.Join(m.verbs, ","), kindOf(g))
	if m.namespace != "" {
		text += " in namespace " + m.namespace
	}
	return text
}

// lacks returns a text for the rights of a grant that the user lacks; empty if none.
func (a *rights) lacks(ctx context.Context, user *policy.User, p *policy.Program, g policy.Grant, r served) (string, error) {
	m, err := a.missing(ctx, user, p, g, r)
	return m.text(user, g), err
}

// missing returns the rights of a grant that the user lacks.
func (a *rights) missing(ctx context.Context, user *policy.User, p *policy.Program, g policy.Grant, r served) (out missing, err error) {
	shown := g.Namespace
	if shown == "" && p.Namespace != "" {
		shown = p.Namespace
	}
	namespace := shown
	if !isLiteral(namespace) {
		namespace = "" // it may be any namespace
	}
	name := g.Name
	if !isLiteral(name) || wildcard.Has(name) {
		name = ""
	}
	out.namespace = shown
	for _, verb := range g.Verbs {
		q := world.AccessRequest{
			Username: user.Username, UID: user.UID, Groups: user.Groups, Extra: user.Extra, Verb: verb,
			Group: r.Group, Version: r.Version, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace, Name: name,
		}
		if verb == "create" || verb == "list" {
			q.Name = "" // requests with these verbs have no name
		}
		allowed, reason, err := a.allowed(ctx, q)
		if err != nil {
			return missing{}, err
		}
		if !allowed {
			out.verbs, out.reasons = append(out.verbs, verb), append(out.reasons, reason)
		}
	}
	return out, nil
}

func (a *rights) allowed(ctx context.Context, q world.AccessRequest) (allowed bool, reason string, err error) {
	if a.access == nil {
		return false, "", world.ErrUnavailable
	}
	key := questionKey(q)
	if reason, ok := a.refused[key]; ok {
		return false, reason, nil
	}
	if a.granted.has(key, a.now()) {
		return true, "", nil
	}
	allowed, reason, err = a.access.Allowed(ctx, q)
	switch {
	case err != nil:
	case allowed:
		a.granted.add(key, a.now())
	default:
		a.refused[key] = reason
	}
	return allowed, reason, err
}

// kindOf returns the kind of a grant as shown in messages.
func kindOf(g policy.Grant) string { return g.APIVersion + "/" + strings.TrimSpace(g.Kind) }

func isLiteral(text string) bool { return !strings.Contains(text, "{{") }

// serviceAccount returns the user of a service account, with the groups that every service account has.
func serviceAccount(name string) *policy.User {
	u := &policy.User{Username: name, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	if parts := strings.Split(name, ":"); len(parts) == 4 {
		u.Groups = append(u.Groups, "system:serviceaccounts:"+parts[2])
	}
	return u
}
