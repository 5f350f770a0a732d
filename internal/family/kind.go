package family

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/policy"
)

// SourceKyverno is the source of results that most kinds share.
const SourceKyverno = "kyverno"

// Kind describes one kind of policy. Its values are shared and read-only.
type Kind struct {
	Group string
	Kind  string
	// Resource is the name of the kind in URLs, Short its abbreviation; empty for none.
	Resource, Short string
	// Versions are the served versions; the first one is stored, read and written.
	Versions   []string
	Namespaced bool
	// Retired are versions that are no longer served. The webhooks for policies still name them.
	Retired []string

	// LabelPrefix is the prefix of the labels with which intermediate reports name policies of the kind; empty for no label.
	LabelPrefix string
	// Source is the source of results in reports.
	Source string
	// Metrics describes the metrics for results; nil for the common ones (kyverno_policy_results).
	Metrics *Metrics
	// Review is the set of webhooks that review policies of the kind.
	Review Review
	// Work are the types of the UpdateRequests (spec.requestType) with work of policies of the kind.
	Work Work
	// BareLabels: labels of objects that its policies generate name the policy without its namespace, and no rule. The executor adds them,
	// not the evaluation.
	BareLabels bool
	// Foreign: the API server itself evaluates policies of the kind. The command line applies them, and reports include them on request.
	Foreign bool
	// Switch is the flag that adds policies of the kind to reports; nil if they are always or never included.
	Switch *Switch
	// Run describes the runs of policies that delete on a schedule, in the cleanup controller; nil for other policies.
	Run *Run
	// Offline: only the command line evaluates policies of the kind, since no controller executes their work yet.
	Offline bool
	// NoExceptions is the error of a test with exceptions and policies of the kind; empty if they may be combined.
	NoExceptions string
	// Superseded reports whether Kyverno has a successor of the kind, which kyverno_deprecated_resource_total counts.
	Superseded bool
}

// Names returns the names of policies of the kind in outputs.
func (k *Kind) Names() policy.Names {
	n := policy.Names{Source: k.Source, LabelPrefix: k.LabelPrefix}
	if k.Metrics != nil {
		n.Metrics = k.Metrics.Name
	}
	if k.Run != nil {
		n.Deletions = k.Run.Metrics
	}
	return n
}

// Work holds types of UpdateRequests; empty for work that policies of the kind do not have.
type Work struct {
	Generate string // to create objects and keep them up to date
	Mutate   string // to change existing objects
}

// GVK returns the kind in its first version.
func (k *Kind) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Versions[0], Kind: k.Kind}
}

// GVR returns the resource in its first version.
func (k *Kind) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Versions[0], Resource: k.Resource}
}

// Kinds are kinds of policies: those of one family, or of all.
type Kinds []*Kind

// Of returns the kind of a group; nil if it is not in the list.
func (all Kinds) Of(group, kind string) *Kind {
	return all.first(func(k *Kind) bool { return k.Group == group && k.Kind == kind })
}

// Owner returns the kind of an object by its API version, served or not; nil if it is not in the list.
func (all Kinds) Owner(apiVersion, kind string) *Kind {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return nil
	}
	return all.Of(group, kind)
}

// Scoped returns the first kind with that scope.
func (all Kinds) Scoped(namespaced bool) *Kind {
	return all.first(func(k *Kind) bool { return k.Namespaced == namespaced })
}

// Named returns the kind of that name, for callers that do not know the group; nil when there is none.
func (all Kinds) Named(kind string) *Kind {
	return all.first(func(k *Kind) bool { return k.Kind == kind })
}

// ForWork returns the kind of the policies in UpdateRequests of the type; nil for an unknown type.
func (all Kinds) ForWork(requestType string, namespaced bool) *Kind {
	return all.first(func(k *Kind) bool {
		return k.Namespaced == namespaced && requestType != "" && (k.Work.Generate == requestType || k.Work.Mutate == requestType)
	})
}

// Delegates reports whether objects of the kind cause work with the rights of another account. This holds for every namespaced policy: its
// review checks the rights of its author. No namespaced policy may write another one, since the background controller would then be its
// author, with more rights than the author of the first (S7 in docs/security/threat-model.md).
func (all Kinds) Delegates(kind schema.GroupKind) bool {
	k := all.Of(kind.Group, kind.Kind)
	return k != nil && k.Namespaced
}

// Where returns the kinds that is accepts, in their order.
func (all Kinds) Where(is func(*Kind) bool) (out Kinds) {
	for _, k := range all {
		if is(k) {
			out = append(out, k)
		}
	}
	return out
}

func (all Kinds) first(is func(*Kind) bool) *Kind {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}
