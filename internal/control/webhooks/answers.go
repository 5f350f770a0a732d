package webhooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/world"
)

// Answers caches the API server's answers about the rights of service accounts. It implements world.Access. Only one goroutine may use
// it, except for the method Doubt.
type Answers struct {
	client client.Client
	now    func() time.Time
	kept   map[question]answer
	left   int // the number of questions that this round may still send
	// doubted is set when roles have changed. unsettled is the time until which the API server may not have noticed the change.
	doubted   atomic.Bool
	unsettled time.Time
}

// question is a question about the rights of an account. The user name identifies the account.
type question struct{ user, verb, group, version, resource, subresource, namespace, name string }

type answer struct {
	allowed bool
	reason  string
	until   time.Time
	pause   time.Duration // pause before the next question about a missing right
}

const (
	// A granted right is checked again after grantedFor. A missing right is checked again after retryRights, since it is often granted
	// soon, and then after pauses that double up to retryRightsMost.
	grantedFor      = 5 * time.Minute
	retryRights     = 3 * time.Second
	retryRightsMost = 30 * time.Second
	// settledAfter is how long the API server may take to notice that a role has changed.
	settledAfter = 2 * time.Second
	// maxQuestions limits the questions of a round, and maxAnswers the number of cached answers.
	maxQuestions = 500
	maxAnswers   = 4096
)

var errQuestions = errors.New("too many queries about rights in one round")

// NewAnswers returns Answers without any.
func NewAnswers(c client.Client, now func() time.Time) *Answers {
	return &Answers{client: c, now: now, kept: map[question]answer{}}
}

// Doubt makes the next round check all rights again.
func (a *Answers) Doubt() { a.doubted.Store(true) }

// round starts a round of questions.
func (a *Answers) round() {
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

// again returns the time until the next round. missing means that rights are missing, and needed that any rights are needed. 0 means that
// no round is needed.
func (a *Answers) again(missing, needed bool) time.Duration {
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

// Allowed implements world.Access. It first asks for the right on all objects, since that answer serves many questions.
func (a *Answers) Allowed(ctx context.Context, q world.AccessRequest) (bool, string, error) {
	exact := question{q.Username, q.Verb, q.Group, q.Version, q.Resource, q.Subresource, q.Namespace, q.Name}
	all := exact
	all.namespace, all.name = "", ""
	known, err := a.lookUp(ctx, all, q.Groups)
	if err == nil && !known.allowed && exact != all {
		known, err = a.lookUp(ctx, exact, q.Groups)
	}
	return known.allowed, known.reason, err
}

func (a *Answers) lookUp(ctx context.Context, q question, groups []string) (answer, error) {
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
		return answer{}, fmt.Errorf("check the rights of %s: %w", q.user, err)
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
