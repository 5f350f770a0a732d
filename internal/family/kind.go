package family

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

// SourceKyverno is the source of results for most kinds.
const SourceKyverno = "kyverno"

// Kind describes one kind of policy. Its values are shared and read-only.
type Kind struct {
	Group string
	Kind  string
	// Resource is the name of the kind in URLs. Short is its abbreviation; empty for none.
	Resource, Short string
	// Versions are the served versions. The first one is the stored version, which Ephor reads and writes.
	Versions   []string
	Namespaced bool
	// Retired are versions that are no longer served. The webhooks that review policies still list them.
	Retired []string

	// LabelPrefix is the prefix of the labels that name policies of the kind in intermediate reports; empty for no label.
	LabelPrefix string
	// Source is the source of the kind's results in reports.
	Source string
	// Metrics describes the metrics for results; nil for the common ones (kyverno_policy_results).
	Metrics *Metrics
	// Review is the set of webhooks that review policies of the kind.
	Review Review
	// Work holds the types (spec.requestType) of the UpdateRequests for policies of the kind.
	Work Work
	// Rules: policies of the kind consist of rules that tests and exceptions name. Policies of other kinds are named as a whole.
	Rules bool
	// BareLabels: labels on generated objects name the policy without its namespace, and do not name the rule. The executor, not the
	// evaluation, adds them.
	BareLabels bool
	// Foreign: the API server itself evaluates policies of the kind. The command line evaluates them, and reports include them on request.
	Foreign bool
	// Switch is the flag that includes policies of the kind in reports; nil if they are always or never included.
	Switch *Switch
	// Run describes the scheduled runs of policies that the cleanup controller executes; nil for other policies.
	Run *Run
	// Offline: only the command line evaluates policies of the kind, since no controller executes their work yet.
	Offline bool
	// NoExceptions is the error for a test that combines exceptions with policies of the kind; empty if it may.
	NoExceptions string
	// Superseded reports whether Kyverno has a newer kind that replaces this one. kyverno_deprecated_resource_total counts such kinds.
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

// Work holds types of UpdateRequests. A type is empty if policies of the kind have no such work.
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

// Of returns the kind of a group, or nil if it is not in the list.
func (all Kinds) Of(group, kind string) *Kind {
	return all.first(func(k *Kind) bool { return k.Group == group && k.Kind == kind })
}

// Owner returns the kind of an object by its API version, served or not, or nil if it is not in the list.
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

// Named returns the kind with this name, or nil if there is none. It is for callers that do not know the group.
func (all Kinds) Named(kind string) *Kind {
	return all.first(func(k *Kind) bool { return k.Kind == kind })
}

// ForWork returns the kind of policies that have UpdateRequests of the type, or nil for an unknown type.
func (all Kinds) ForWork(requestType string, namespaced bool) *Kind {
	return all.first(func(k *Kind) bool {
		return k.Namespaced == namespaced && requestType != "" && (k.Work.Generate == requestType || k.Work.Mutate == requestType)
	})
}

// Delegates reports whether objects of the kind cause work with the rights of another account. This holds for every namespaced policy: its
// review checks the rights of its author. A namespaced policy may not write another one. Otherwise the background controller would be the
// author of the second policy, with more rights than the author of the first (S7 in docs/security/threat-model.md).
func (all Kinds) Delegates(kind schema.GroupKind) bool {
	k := all.Of(kind.Group, kind.Kind)
	return k != nil && k.Namespaced
}

// Where returns the kinds for which is returns true, in their order.
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
