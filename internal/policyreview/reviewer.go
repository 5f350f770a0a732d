package policyreview

import (
	"log/slog"
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/discovery"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// Discovery answers what the API server serves. An error means that it could not be found out, which is never to be read as "none".
type Discovery interface {
	discovery.Resources
	// BodyOf are the subresources, as Kind/sub, that are written with objects of the kind. It is asked after Find.
	BodyOf(kind string) []string
	// KindFor is the kind of a main resource.
	KindFor(apischema.GroupVersionResource) (apischema.GroupVersionKind, error)
}

// Options are the settings of the process that reviews depend on.
type Options struct {
	// Exceptions says whose PolicyExceptions are applied, for the warnings about those that are not.
	Exceptions Exceptions
	// Accounts carry out what policies ask for.
	Accounts Accounts
	// Permitted are what the operator permits to policies.
	Permitted family.Permissions
	// Webhooks warns of what a new policy means for the webhooks; nil for no such warnings.
	Webhooks func(*policy.Program) diag.List
}

// Accounts are the full names (system:serviceaccount:namespace:name) of those who carry out what policies ask for; empty
// for those that do not exist, whose rights are not looked at.
type Accounts struct{ Background, Reports, Cleanup string }

// Reviewer reviews policies and what belongs to them. All methods are safe for all goroutines.
type Reviewer struct {
	Options
	// Families are those of the policies; nil for those of Ephor.
	Families  *compile.Registry
	Discovery Discovery
	// Root gives the access reviews.
	Root world.Root
	// Programs are the policies that exist.
	Programs func() []*policy.Program
	// Patience is how long a review waits for rights that are granted together with the policy, see GrantPatience.
	Patience time.Duration
	Log      *slog.Logger
	Now      func() time.Time

	granted granted
}

// Answer is the answer to a review.
type Answer struct {
	Allowed  bool
	Message  string // of a refusal
	Warnings []string
}

// leaves reports whether the request only touches the metadata of what is being deleted: its finalizers must not get
// stuck on a mistake. The API server takes changes of the rest until the last finalizer is gone, and what they say is in
// force until then, so they are reviewed like any other (S7 and S19 in docs/security/threat-model.md).
func leaves(req *policy.Request, object map[string]any) bool {
	if !beingDeleted(object) {
		return false
	}
	old, err := req.OldObject.Map()
	return err == nil && value.Equal(old["spec"], object["spec"])
}

func beingDeleted(object map[string]any) bool {
	meta, _ := object["metadata"].(map[string]any)
	return meta["deletionTimestamp"] != nil
}
