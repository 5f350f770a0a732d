package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/world"
)

// answers are the API server's answers to questions about the rights of service accounts, kept for a while. It implements world.Access.
// One goroutine uses it, except doubt.
type answers struct {
	client client.Client
	now    func() time.Time
	kept   map[question]answer
	left   int // how many questions this round may still send
	// doubted is set when roles have changed; unsettled is until when the API server may not have noticed.
	doubted   atomic.Bool
	unsettled time.Time
}

// question is a question about an account, of which everything else is known by its name.
type question struct{ user, verb, group, version, resource, subresource, namespace, name string }

type answer struct {
	allowed bool
	reason  string
	until   time.Time
	pause   time.Duration // to the next question about a right that is missing
}

const (
	// A right that was granted is asked for again after grantedFor. A missing one is asked for again after retryRights, since it is often
	// granted in a moment, and then after pauses that double up to retryRightsMost.
	grantedFor      = 5 * time.Minute
	retryRights     = 3 * time.Second
	retryRightsMost = 30 * time.Second
	// settledAfter is how long the API server may take to notice that a role has changed.
	settledAfter = 2 * time.Second
	// maxQuestions bounds the questions of a round, maxAnswers what is kept.
	maxQuestions = 500
	maxAnswers   = 4096
)

var errQuestions = errors.New("there are too many questions about rights for one round")

func newAnswers(c client.Client, now func() time.Time) *answers {
	return &answers{client: c, now: now, kept: map[question]answer{}}
}

// doubt has all rights be looked up again in the next round.
func (a *answers) doubt() { a.doubted.Store(true) }

// round begins a round of questions.
func (a *answers) round() {
	now := a.now()
	a.left = maxQuestions
	if a.doubted.Swap(false) {
		a.unsettled = now.Add(settledAfter)
		clear(a.kept)
	}
	if len(a.kept) >= maxAnswers {
		maps.DeleteFunc(a.kept, func(_ question, known answer) bool { return !now.Before(known.until) })
	}
	if len(a.kept) >= maxAnswers {
		clear(a.kept)
	}
}

// again returns when the next round is due, given that rights are missing or that some are needed at all; 0 for never.
func (a *answers) again(missing, needed bool) time.Duration {
	switch {
	case needed && a.now().Before(a.unsettled):
		return settledAfter
	case missing:
		return retryRights
	case needed:
		return grantedFor
	}
	return 0
}

// Allowed implements world.Access. A right on all objects is asked for first, since one answer then serves many questions.
func (a *answers) Allowed(ctx context.Context, q world.AccessRequest) (bool, string, error) {
	exact := question{q.Username, q.Verb, q.Group, q.Version, q.Resource, q.Subresource, q.Namespace, q.Name}
	all := exact
	all.namespace, all.name = "", ""
	known, err := a.ask(ctx, all, q.Groups)
	if err == nil && !known.allowed && exact != all {
		known, err = a.ask(ctx, exact, q.Groups)
	}
	return known.allowed, known.reason, err
}

func (a *answers) ask(ctx context.Context, q question, groups []string) (answer, error) {
	before := a.kept[q]
	if a.now().Before(before.until) {
		return before, nil
	}
	if a.left == 0 {
		return answer{}, errQuestions
	}
	a.left--
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: q.user, Groups: groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: q.verb, Group: q.group, Version: q.version, Resource: q.resource, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
		},
	}}
	if err := a.client.Create(ctx, review); err != nil {
		return answer{}, fmt.Errorf("ask for the rights of %s: %w", q.user, err)
	}
	out := answer{allowed: review.Status.Allowed, reason: review.Status.Reason}
	switch now := a.now(); {
	case out.allowed && now.Before(a.unsettled):
		out.until = a.unsettled
	case out.allowed:
		out.until = now.Add(grantedFor)
	default:
		out.pause = min(max(2*before.pause, retryRights), retryRightsMost)
		out.until = now.Add(out.pause)
	}
	a.kept[q] = out
	return out, nil
}
