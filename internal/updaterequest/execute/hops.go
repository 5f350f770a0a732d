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

// Rules with skipBackgroundRequests: false are triggered by our own writes, so that policies can trigger each other without end. Therefore
// each write that follows from our own write carries its number in the row as its field manager. The API server passes the field manager to
// webhooks, whatever part of the object is written, and the UpdateRequest keeps it. Deletions have no field manager and count as the first.

// hopManager is the prefix of such field managers.
const hopManager = "ephor-hop-"

// hops returns how many of our own writes in a row led to the work: 0 when another client asked for it. Only our own field manager counts:
// others could name a field manager to escape a policy.
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

// owner returns the field manager of the task's writes: the usual one of its kind of rule, or the number of the hop.
func (t *task) owner(usual string) client.FieldOwner {
	if t.hops == 0 {
		return client.FieldOwner(usual)
	}
	return client.FieldOwner(hopManager + strconv.Itoa(t.hops+1))
}

func isHop(err error) bool { return errors.As(err, &hopError{}) }

// hopError is the error of work that follows from itself.
type hopError struct{ policy, rule string }

func (e hopError) Error() string {
	return fmt.Sprintf("rule %s of policy %s was triggered by %d writes of the background controller in a row: policies trigger each other; "+
		"set skipBackgroundRequests: true, or let match exclude the objects that the rules make", e.rule, e.policy, policy.MaxHops)
}
