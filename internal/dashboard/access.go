package dashboard

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"ephor.invalid/ephor/internal/world"
)

// How long the API server's answers about rights are cached, and how many checks run at the same time.
const (
	accessFor      = 20 * time.Second
	maxNamespaces  = 500 // that are checked individually
	accessesAtOnce = 8
)

// Keys in verdicts that are not namespaces.
const (
	everywhere    = "*" // reports of all namespaces
	clusterScoped = ""  // reports about cluster-scoped objects
)

type verdict struct {
	allowed bool
	until   time.Time
}

// view is the part of the reports that a user may see.
type view struct {
	user    string
	all     bool // of all namespaces
	allowed map[string]bool
	// unasked is the number of namespaces that are left out because there are too many to check each.
	unasked int
}

// sees reports whether reports of the namespace may be shown; "" means cluster-scoped ones.
func (v *view) sees(namespace string) bool {
	return v.allowed[namespace] || v.all && namespace != clusterScoped
}

// view returns the namespaces that the user of a session may see. An error means that the API server did not answer, which does not mean
// no.
func (s *sessions) view(ctx context.Context, one *session, namespaces []string) (*view, error) {
	if s.tokens == nil {
		return &view{all: true, allowed: map[string]bool{clusterScoped: true}}, nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	v := &view{user: one.user.Name, allowed: map[string]bool{}}
	if err := s.refresh(ctx, one, []string{everywhere, clusterScoped}); err != nil {
		return nil, err
	}
	v.all, v.allowed[clusterScoped] = one.verdicts[everywhere].allowed, one.verdicts[clusterScoped].allowed
	if v.all {
		return v, nil
	}
	if len(namespaces) > maxNamespaces {
		v.unasked, namespaces = len(namespaces)-maxNamespaces, namespaces[:maxNamespaces]
	}
	if err := s.refresh(ctx, one, namespaces); err != nil {
		return nil, err
	}
	for _, ns := range namespaces {
		v.allowed[ns] = one.verdicts[ns].allowed
	}
	return v, nil
}

// refresh adds missing or expired verdicts for the scopes. The caller has locked the session.
func (s *sessions) refresh(ctx context.Context, one *session, scopes []string) error {
	now := s.now()
	var unknown []string
	for _, scope := range scopes {
		if v, ok := one.verdicts[scope]; !ok || !now.Before(v.until) {
			unknown = append(unknown, scope)
		}
	}
	for scope, v := range one.verdicts {
		if !now.Before(v.until) {
			delete(one.verdicts, scope)
		}
	}
	answers := make([]bool, len(unknown))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(accessesAtOnce)
	for i, scope := range unknown {
		asking.Go(func() (err error) {
			answers[i], err = s.may(ctx, one.user, scope)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return err
	}
	for i, scope := range unknown {
		one.verdicts[scope] = verdict{answers[i], now.Add(accessFor)}
	}
	return nil
}

// may reports whether the user may list reports of the scope.
func (s *sessions) may(ctx context.Context, u User, scope string) (bool, error) {
	kind, namespace := s.form.Namespaced, scope
	switch scope {
	case everywhere:
		namespace = "" // no namespace means all of them
	case clusterScoped:
		kind = s.form.Cluster
	}
	allowed, _, err := s.access.Allowed(ctx, world.AccessRequest{
		Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra,
		Verb: "list", Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Namespace: namespace,
	})
	if err != nil {
		return false, fmt.Errorf("ask the API server what %s may list: %w", u.Name, err)
	}
	return allowed, nil
}
