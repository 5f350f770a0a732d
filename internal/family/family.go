package family

import (
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Family describes one family of policies. Its values are shared and read-only.
type Family struct {
	Name string
	Doc  string
	// Kinds are the kinds of its policies. A kind that lives in namespaces stands after its cluster-wide sibling.
	Kinds Kinds
	// Companions are the kinds of objects that its policies are compiled with, such as bindings.
	Companions []Companion
	// Endpoints are where the webhooks for its policies ask; none where the API server does not ask about requests.
	Endpoints []policy.Endpoint
	// Status describes the status of its policies; nil for a family whose status the admission controller does not write.
	Status *Status
	// Compile decodes, checks and compiles one policy. It always returns a Program; its Diags are complete.
	Compile func(Source) *policy.Program
	// Review, when set, finds what a policy may not be when it is written, though one that is stored is evaluated.
	Review func(Reviewed) diag.List
	// FieldErrors: mistakes are worded as the API server's errors about fields, in one list, and repeated as warnings.
	FieldErrors bool
	// HandedOver, when set, reports whether the API server itself does what the policy does to requests, by a policy that was made from
	// it. Its status says so; a policy is compiled anew when that changes.
	HandedOver func(object map[string]any) bool
	// Exceptions are the objects that exempt from its policies; nil for none. Families may share them.
	Exceptions *Exceptions
	// CheckUpdate, when set, finds what the update of a stored policy may not change.
	CheckUpdate func(old, updated map[string]any) diag.List
}

// Source is what a Program is compiled of.
type Source struct {
	Object map[string]any
	// Companions are the contents of the companions that belong to the policy (Attached.Content).
	Companions []any
	Options
}

// Reviewed is a policy that is written.
type Reviewed struct {
	Object map[string]any
	// Program is what the object compiles to.
	Program *policy.Program
	Permissions
}

// Permissions are what the operator permits to policies.
type Permissions struct {
	// ServicesInNamespaces: expressions of namespaced policies may ask HTTP services.
	ServicesInNamespaces bool
	// Documents: policies are for the command line, where those for documents are what they say, and need no constraints.
	Documents bool
}

// Options say what Programs are for.
type Options struct {
	// Types gives the types of known kinds, by which lists are merged; nil for none. It may take a while, and is called only for
	// policies that need it.
	Types func() managedfields.TypeConverter
	// CommandLine: the Programs evaluate what the user gives, wherever it would be in a cluster. A policy of a namespace is for the
	// objects of every namespace, as Kyverno's command line has it, and one for documents is for objects of a cluster, too.
	CommandLine bool
	// Existing asks for Programs that say what policies mean for objects that exist, in reports, and not for requests.
	Existing bool
}

// Companion describes a kind of objects that belong to policies of a family.
type Companion struct {
	Group, Kind string
	Versions    []string
	// Policy is the kind of policies that they belong to.
	Policy string
	// Compile decodes and checks one such object. Use the result only without an error among the diagnostics.
	Compile func(object map[string]any) (Attached, diag.List)
}

// Attached is a compiled companion with the policy that it belongs to.
type Attached struct {
	Policy policy.ID
	// Content is for the compiler of the policy.
	Content any
}

// Companion returns the kind of companions that an object is of; nil when the family has no such kind.
func (f *Family) Companion(group, kind string) *Companion {
	for i := range f.Companions {
		if c := &f.Companions[i]; c.Group == group && c.Kind == kind {
			return c
		}
	}
	return nil
}
