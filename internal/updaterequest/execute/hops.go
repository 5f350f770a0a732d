package execute

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Rules with skipBackgroundRequests: false are triggered by what we write ourselves, so that policies can trigger each
// other without end. Therefore each write that follows from a write of ours tells, as its field manager, the how manyeth in
// a row it is; the API server hands that to webhooks with the request, whatever part of the object is written, and the
// UpdateRequest keeps it. Deletions have no field manager and count as the first.

// hopManager is the prefix of such field managers.
const hopManager = "ephor-hop-"

// hops is how many writes of ours in a row led to the work: 0 where another client asked for it, or none. Only our own field manager
// counts: others could name a field manager to escape a policy.
func (w *Worker) hops(u *kyvernov2.UpdateRequest) int {
	r := u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	if r == nil || w.Account == "" || r.UserInfo.Username != w.Account {
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

// owner is the field manager of what the task writes: the usual one of its kind of rule, or the number of the hop.
func (t *task) owner(usual string) client.FieldOwner {
	if t.hops == 0 {
		return client.FieldOwner(usual)
	}
	return client.FieldOwner(hopManager + strconv.Itoa(t.hops+1))
}

func isHop(err error) bool { return errors.As(err, &hopError{}) }

// hopError is why work is not carried out that follows from itself.
type hopError struct{ policy, rule string }

func (e hopError) Error() string {
	return fmt.Sprintf("rule %s of policy %s was triggered by %d writes of the background controller in a row: policies trigger each other; "+
		"set skipBackgroundRequests: true, or let match tell apart what the rules make", e.rule, e.policy, policy.MaxHops)
}
