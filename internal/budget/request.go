package budget

import (
	"context"
	"fmt"
)

// Limits of all rules of one policy for one request together, and of all policies of one request. A cluster-wide policy may cost about a
// second: all CEL expressions of its rules together as much as the API server grants for one policy, or 50 rules that exhaust their
// budgets. A namespaced policy, which any tenant may write, may cost a tenth of that: enough for 20,000 rules of the size of a Pod Security
// rule on a 7 kB Pod, or five that exhaust their budgets.
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
	// Pace counts steps that were taken and waits while other work has priority. An error that wraps ErrExhausted means that the wait would
	// be too long; other errors are those of ctx.
	Pace(ctx context.Context, steps int64) error
	// Spend counts steps that were taken, without waiting.
	Spend(steps int64)
	// Done is called once, at the end of the policy's evaluation for the request.
	Done()
}

// purse is the remainder of a budget.
type purse struct{ steps, bytes int64 }

func (p *purse) charge(steps, bytes int64) { p.steps -= steps; p.bytes -= bytes }

// Request is the remaining budget of the policies of one request. Cluster-wide and namespaced policies have separate budgets, so that no
// tenant exhausts the budget of the cluster-wide policies. It belongs to one goroutine.
type Request struct {
	cluster, namespaced purse
	large               []Account // of policies that used much of their budget, in case they are evaluated again
}

// NewRequest returns the budget of a new request.
func NewRequest() *Request {
	return &Request{
		cluster:    purse{RequestSteps, RequestBytes},
		namespaced: purse{NamespacedRequestSteps, NamespacedRequestBytes},
	}
}

// Account is the remaining budget of one policy for one request. It belongs to one goroutine.
type Account struct {
	policy     any // the policy that the account belongs to
	namespaced bool
	left       purse
	all        *purse // the remaining budget of all policies of the same scope
	exception  bool
	pacer      Pacer
	err        error
}

// Open makes a the account of a policy: a new one, or the remainder of an earlier evaluation in the request. policy is compared by
// identity.
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
	// Small amounts are not worth remembering.
	if a.err != nil || a.left.steps < NamespacedPolicySteps*7/8 || a.left.bytes < NamespacedPolicyBytes*7/8 {
		r.large = append(r.large, *a)
	}
}

// find returns the remembered account of a policy.
func (r *Request) find(policy any) *Account {
	for i := range r.large {
		if r.large[i].policy == policy {
			return &r.large[i]
		}
	}
	return nil
}

// Pace lets p pace the work that is charged to the account, and waits until the work may begin. Err returns the reason if it may not.
func (a *Account) Pace(ctx context.Context, p Pacer) {
	a.pacer = p
	if a.err == nil {
		a.err = p.Pace(ctx, 0)
	}
}

// Pacer returns the pacer of the account; nil without one.
func (a *Account) Pacer() Pacer { return a.pacer }

// Err returns the reason why the policy may not be evaluated any further; nil if it may.
func (a *Account) Err() error { return a.err }

// charge charges the counts of a meter.
func (a *Account) charge(steps, bytes int64) {
	a.left.charge(steps, bytes)
	a.all.charge(steps, bytes)
	if a.err == nil {
		a.err = a.over(0, 0)
	}
}

// over returns the error for the budget that steps and bytes would exceed; nil for none.
func (a *Account) over(steps, bytes int64) error {
	policy, request := purse{PolicySteps, PolicyBytes}, purse{RequestSteps, RequestBytes}
	whose := "policies of the cluster"
	if a.namespaced {
		policy, request = purse{NamespacedPolicySteps, NamespacedPolicyBytes}, purse{NamespacedRequestSteps, NamespacedRequestBytes}
		whose = "namespaced policies"
	}
	switch {
	case a.exception && (a.left.steps < steps || a.left.bytes < bytes):
		return fmt.Errorf("%w: all exceptions of a rule may take %d steps and make %d bytes of data together, in equal shares: make its conditions do less",
			ErrExhausted, ExceptionSteps, ExceptionBytes)
	case a.left.steps < steps || a.left.bytes < bytes:
		return fmt.Errorf("%w: for one request all rules of a policy may take %d steps and make %d bytes of data together: make them do less, or divide the policy",
			ErrExhausted, policy.steps, policy.bytes)
	case a.all.steps < steps || a.all.bytes < bytes:
		return fmt.Errorf("%w: for one request all %s may take %d steps and make %d bytes of data together: make their rules do less",
			ErrExhausted, whose, request.steps, request.bytes)
	}
	return nil
}
