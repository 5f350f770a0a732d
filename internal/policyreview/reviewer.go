package policyreview

import (
	"context"
	"log/slog"
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Discovery returns the kinds that the API server serves. An error means that discovery failed, never "none".
type Discovery interface {
	discovery.Resources
	// BodyOf returns the subresources, as Kind/sub, whose requests hold objects of the kind. Call it after Find.
	BodyOf(kind string) []string
	// KindFor returns the kind of a main resource.
	KindFor(context.Context, apischema.GroupVersionResource) (apischema.GroupVersionKind, error)
}

// Options are the settings of the process that reviews depend on.
type Options struct {
	// Exceptions decides which PolicyExceptions take effect; a review warns about the others.
	Exceptions Exceptions
	// Settings returns the settings of the installation; nil for the defaults.
	Settings func() *settings.Settings
	// Accounts execute the work of policies.
	Accounts Accounts
	// Permitted is what the operator permits policies to do.
	Permitted family.Permissions
	// Server returns the version of the API server; nil for the newest.
	Server func() kubeversion.Minor
	// Webhooks returns warnings about a policy's effect on the webhooks; nil for none.
	Webhooks func(*policy.Program) diag.List
}

// Accounts are the full names (system:serviceaccount:namespace:name) of the accounts that execute the work of policies; empty for missing
// ones, whose rights are not checked.
type Accounts struct{ Background, Reports, Cleanup string }

// Reviewer reviews policies and related kinds. Its methods are safe for concurrent use.
type Reviewer struct {
	Options
	// Families describes the kinds of policies; nil for Ephor's own.
	Families  *compile.Registry
	Discovery Discovery
	// Root sends the access reviews.
	Root world.Root
	// Programs returns the existing policies.
	Programs func() []*policy.Program
	// Patience is how long a review waits for rights that are granted together with the policy (GrantPatience).
	Patience time.Duration
	Log      *slog.Logger
	Now      func() time.Time

	granted granted
}

// Answer is the answer to a review.
type Answer struct {
	Allowed  bool
	Message  string // the text of a refusal
	Warnings []string
}

// leaves reports whether the request only changes the metadata of an object that is being deleted, so that a mistake does not block its
// finalizers. The API server accepts other changes until the last finalizer is removed, and they take effect until then, so such changes
// are reviewed as usual (S7 and S19 in docs/security/threat-model.md).
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
