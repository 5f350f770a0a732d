package execute

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/policy"
)

// Our own writes trigger rules with skipBackgroundRequests: false, so that policies can trigger each other endlessly. Therefore the field
// manager of each write that results from one of our own writes contains its number in the chain. The API server passes the field manager
// to webhooks, whichever part of the object is written, and the UpdateRequest stores it. Deletions have no field manager and count as the
// first write of a chain.

// hopManager is the prefix of such field managers.
const hopManager = "ephor-hop-"

// hops returns how many consecutive writes of our own led to the work; 0 if another client caused it. Only the field manager of our own
// requests counts, because other clients could set a field manager to evade a policy.
func (x *reader) hops(u *kyvernov2.UpdateRequest) int {
	r := u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	if r == nil || x.account == "" || r.UserInfo.Username != x.account {
		return 0
	}
	manager, _ := decode(r.Options)["fieldManager"].(string)
	if n, ok := strings.CutPrefix(manager, hopManager); ok {
		if n, err := strconv.Atoi(n); err == nil && n > 1 {
			return n
		}
	}
	return 1
}

// owner returns the field manager for the task's writes: the usual one for this kind of rule, or the one with the number of the hop.
func (t *task) owner(usual string) client.FieldOwner {
	if t.hops == 0 {
		return client.FieldOwner(usual)
	}
	return client.FieldOwner(hopManager + strconv.Itoa(t.hops+1))
}

func isHop(err error) bool { return errors.As(err, &hopError{}) }

// hopError is the error for work that triggers itself.
type hopError struct{ policy, rule string }

func (e hopError) Error() string {
	return fmt.Sprintf("rule %s of policy %s was triggered by %d writes of the background controller in a row: policies trigger each other; "+
		"set skipBackgroundRequests: true, or let match exclude the objects that the rules make", e.rule, e.policy, policy.MaxHops)
}
