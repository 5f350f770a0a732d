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
	// Versions are the served versions; the first is the one that is stored, read and written.
	Versions   []string
	Namespaced bool
	// Retired are versions that are not served any more. The webhooks for policies name them all the same.
	Retired []string

	// LabelPrefix begins the labels with which intermediate reports name policies of the kind; empty for no label.
	LabelPrefix string
	// Source is what reports name as the source of results.
	Source string
	// Metrics describes the metrics for results; nil for those of most policies (kyverno_policy_results).
	Metrics *Metrics
	// Review says which webhooks ask about policies of the kind when they are written.
	Review Review
	// Work are the types of the UpdateRequests (spec.requestType) that ask for work of policies of the kind.
	Work Work
	// BareLabels: labels of objects that its policies generate name the policy without its namespace, and no rule. The executor adds them,
	// not the evaluation.
	BareLabels bool
	// Foreign reports that the API server evaluates policies of the kind itself. The command line applies them, and reports cover
	// those that ask for it.
	Foreign bool
	// Switch is the flag that makes reports cover policies of the kind; nil where they always do, or never.
	Switch *Switch
	// Run describes the runs of policies that delete on a schedule, in the cleanup controller; nil for policies that do not.
	Run *Run
	// Offline reports that only the command line evaluates policies of the kind: the controllers do not carry out their work yet.
	Offline bool
	// NoExceptions is the error of a test with exceptions beside policies of the kind; empty where they may stand together.
	NoExceptions string
	// Superseded reports whether Kyverno has given the kind a successor, which kyverno_deprecated_resource_total counts.
	Superseded bool
}

// Names returns what outputs call policies of the kind.
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

// Work names types of UpdateRequests; empty for work that policies of the kind do not ask for.
type Work struct {
	Generate string // to make objects, and to keep what was made up to date
	Mutate   string // to change objects that exist
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

// Of returns the kind of a group; nil when it is not among them.
func (all Kinds) Of(group, kind string) *Kind {
	return all.first(func(k *Kind) bool { return k.Group == group && k.Kind == kind })
}

// Owner returns the kind of an object by its API version, whether that is served or not; nil when it is not among them.
func (all Kinds) Owner(apiVersion, kind string) *Kind {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return nil
	}
	return all.Of(group, kind)
}

// Scoped returns the first kind that lives in namespaces, or that does not.
func (all Kinds) Scoped(namespaced bool) *Kind {
	return all.first(func(k *Kind) bool { return k.Namespaced == namespaced })
}

// Named returns the kind of that name, for callers that do not know the group; nil when there is none.
func (all Kinds) Named(kind string) *Kind {
	return all.first(func(k *Kind) bool { return k.Kind == kind })
}

// ForWork returns the kind whose policies an UpdateRequest of the type names; nil for an unknown type.
func (all Kinds) ForWork(requestType string, namespaced bool) *Kind {
	return all.first(func(k *Kind) bool {
		return k.Namespaced == namespaced && requestType != "" && (k.Work.Generate == requestType || k.Work.Mutate == requestType)
	})
}

// Delegates reports whether objects of the kind get work done with the rights of another account. That holds for every policy that
// lives in a namespace: its author is asked for his own rights when it is written. No namespaced policy may write one, for its
// author would then be the background controller, who may do more than the author of the first (S7 in docs/security/threat-model.md).
func (all Kinds) Delegates(kind schema.GroupKind) bool {
	k := all.Of(kind.Group, kind.Kind)
	return k != nil && k.Namespaced
}

// Where returns the kinds of which is holds, in their order.
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
