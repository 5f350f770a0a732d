package budget

import (
	"context"
	"fmt"
)

// Limits of all rules of one policy for one request together, and of all policies of one request. A policy of the cluster
// may cost about a second: all CEL expressions of its rules together as much as the API server grants the expressions of one,
// or 50 rules that use up theirs. A namespaced policy, which any tenant may write, costs a tenth of that: 20,000 rules
// of the size of a Pod Security rule on a Pod of 7 kB fit into it, or five that use up theirs.
const (
	PolicySteps  = 50 * DefaultSteps
	PolicyBytes  = 32 * DefaultBytes
	RequestSteps = 3 * PolicySteps
	RequestBytes = 3 * PolicyBytes

	NamespacedPolicySteps  = PolicySteps / 10
	NamespacedPolicyBytes  = PolicyBytes / 8
	NamespacedRequestSteps = 2 * NamespacedPolicySteps
	NamespacedRequestBytes = 2 * NamespacedPolicyBytes
)

// Pacer spreads the work of a policy over time. It belongs to one goroutine.
type Pacer interface {
	// Pace counts steps that were taken and waits for as long as others are to go first. An error that wraps ErrExhausted
	// says that it would take too long; other errors are those of ctx.
	Pace(ctx context.Context, steps int64) error
	// Spend counts steps that were taken, without waiting.
	Spend(steps int64)
	// Done is called once, when the policy is through with the request.
	Done()
}

// purse is what is left of a budget.
type purse struct{ steps, bytes int64 }

func (p *purse) take(steps, bytes int64) { p.steps -= steps; p.bytes -= bytes }

// Request is what the policies of one request may still use. Policies of the cluster and namespaced ones have a budget of
// their own, so that no tenant uses up what the policies of the cluster need. A zero Request must be Reset before use. It
// belongs to one goroutine.
type Request struct {
	cluster, namespaced purse
	large               []Account // of policies that used much, in case that they are evaluated again
}

// Reset makes r as for a new request.
func (r *Request) Reset() {
	clear(r.large)
	*r = Request{
		cluster:    purse{RequestSteps, RequestBytes},
		namespaced: purse{NamespacedRequestSteps, NamespacedRequestBytes},
		large:      r.large[:0],
	}
}

// Account is what one policy may still use for one request. It belongs to one goroutine.
type Account struct {
	policy     any // whose account it is
	namespaced bool
	left       purse
	all        *purse // what is left to all such policies
	pacer      Pacer
	err        error
}

// Open makes a the account of a policy: a new one, or what an earlier evaluation of the request left of it. policy is compared
// by identity.
func (r *Request) Open(a *Account, policy any, namespaced bool) {
	*a = Account{policy: policy, namespaced: namespaced, left: purse{PolicySteps, PolicyBytes}, all: &r.cluster}
	if namespaced {
		a.left, a.all = purse{NamespacedPolicySteps, NamespacedPolicyBytes}, &r.namespaced
	}
	if k := r.find(policy); k != nil {
		a.left, a.err = k.left, k.err
	}
}

// Close ends an evaluation of the policy.
func (r *Request) Close(a *Account) {
	if a.pacer != nil {
		a.pacer.Done()
		a.pacer = nil
	}
	if k := r.find(a.policy); k != nil {
		*k = *a
		return
	}
	// What is little is not worth being remembered.
	if a.err != nil || a.left.steps < NamespacedPolicySteps*7/8 || a.left.bytes < NamespacedPolicyBytes*7/8 {
		r.large = append(r.large, *a)
	}
}

// find returns what is remembered of a policy.
func (r *Request) find(policy any) *Account {
	for i := range r.large {
		if r.large[i].policy == policy {
			return &r.large[i]
		}
	}
	return nil
}

// Pace lets p spread the work that is charged to the account, and waits until it may begin. Err says when it may not.
func (a *Account) Pace(ctx context.Context, p Pacer) {
	a.pacer = p
	if a.err == nil {
		a.err = p.Pace(ctx, 0)
	}
}

// Err says why the policy may not be evaluated any further, nil when it may.
func (a *Account) Err() error { return a.err }

// take settles what a meter counted.
func (a *Account) take(steps, bytes int64) {
	a.left.take(steps, bytes)
	a.all.take(steps, bytes)
	if a.err == nil {
		a.err = a.over(0, 0)
	}
}

// over says which budget is used up when steps and bytes are taken, nil for none.
func (a *Account) over(steps, bytes int64) error {
	policy, request := purse{PolicySteps, PolicyBytes}, purse{RequestSteps, RequestBytes}
	whose := "policies of the cluster"
	if a.namespaced {
		policy, request = purse{NamespacedPolicySteps, NamespacedPolicyBytes}, purse{NamespacedRequestSteps, NamespacedRequestBytes}
		whose = "namespaced policies"
	}
	switch {
	case a.left.steps < steps || a.left.bytes < bytes:
		return fmt.Errorf("%w: for one request all rules of a policy may take %d steps and make %d bytes of data together: make them do less, or divide the policy",
			ErrExhausted, policy.steps, policy.bytes)
	case a.all.steps < steps || a.all.bytes < bytes:
		return fmt.Errorf("%w: for one request all %s may take %d steps and make %d bytes of data together: make their rules do less",
			ErrExhausted, whose, request.steps, request.bytes)
	}
	return nil
}
