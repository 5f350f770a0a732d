package family

import (
	"k8s.io/apimachinery/pkg/util/managedfields"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
)

// Family describes one family of policies. Its values are shared and read-only.
type Family struct {
	Name string
	Doc  string
	// Kinds are the kinds of its policies. A namespaced kind follows its cluster-wide sibling.
	Kinds Kinds
	// Companions are the kinds of objects that its policies are compiled with, such as bindings.
	Companions []Companion
	// Endpoints are the webhook endpoints for its policies; none if the policies do not evaluate requests.
	Endpoints []policy.Endpoint
	// Status describes the status of its policies; nil if the admission controller does not write it.
	Status *Status
	// Compile decodes, checks and compiles one policy. It always returns a Program, whose Diags hold all mistakes.
	Compile func(Source) *policy.Program
	// Review, if set, returns mistakes that make the review reject a policy. A stored policy with such mistakes is still evaluated.
	Review func(Reviewed) diag.List
	// FieldErrors: mistakes are reported as the API server reports field errors, in one list, and are repeated as warnings.
	FieldErrors bool
	// HandedOver, if set, reports whether the API server itself enforces the policy on requests, through a policy that was generated
	// from it. The status of the policy records this; the policy is compiled again when the record changes.
	HandedOver func(object map[string]any) bool
	// Exceptions are the objects that exempt from its policies; nil for none. Families may share them.
	Exceptions *Exceptions
	// CheckUpdate, if set, returns the forbidden changes in an update of a stored policy.
	CheckUpdate func(old, updated map[string]any) diag.List
}

// Source is the input of Compile.
type Source struct {
	Object map[string]any
	// Companions are the contents of the companions that belong to the policy (Attached.Content).
	Companions []any
	Options
}

// Reviewed is a policy under review.
type Reviewed struct {
	Object map[string]any
	// Program is the compiled object.
	Program *policy.Program
	Permissions
}

// Permissions are the permissions that the operator grants to policies.
type Permissions struct {
	// ServicesInNamespaces: expressions of namespaced policies may call HTTP services.
	ServicesInNamespaces bool
	// Server is the version of the API server.
	Server kubeversion.Minor
	// Documents: the policies are for the command line, where policies for documents need no constraints.
	Documents bool
}

// Options describe how the Programs are used.
type Options struct {
	// Types returns the types of known kinds, which determine how lists are merged; nil for none. It may be slow, is called only for
	// policies that need it, and must be safe for concurrent use.
	Types func() managedfields.TypeConverter
	// CommandLine: the Programs evaluate the user's objects in any namespace. A namespaced policy applies to objects of every
	// namespace, as on Kyverno's command line, and a policy for documents also applies to Kubernetes objects.
	CommandLine bool
	// Targets: the command line also gets the existing resources that policies change. Without them, policies that change existing resources
	// have no effect there.
	Targets bool
	// Existing: the Programs evaluate existing objects for reports, not requests.
	Existing bool
	// OnlyListed: no policy evaluates requests for subresources of Pods that it does not list (--podSubresources=false).
	OnlyListed bool
	// Server is the version of the API server that defines functions, standards and fields.
	Server kubeversion.Minor
	// Allowance is charged for what the policy costs to compile; nil for that of a single policy. Use Within to read it.
	Allowance *compilecost.Allowance
}

// Within returns the Allowance that a compiler charges. It names the version of the API server.
func (o Options) Within() *compilecost.Allowance {
	a := o.Allowance
	if a == nil {
		a = &compilecost.Allowance{}
	}
	a.Server = o.Server
	return a
}

// Subresources reports whether policies on Pods also evaluate requests for the subresources that change the containers of Pods.
func (o Options) Subresources() bool { return !o.OnlyListed && !o.Existing }

// Companion describes a kind of objects that belong to policies of a family, such as bindings.
type Companion struct {
	Group, Kind string
	Versions    []string
	// Policy is the kind of these policies.
	Policy string
	// Compile decodes and checks one companion. Use the result only if no diagnostic is an error.
	Compile func(object map[string]any) (Attached, diag.List)
}

// Attached is a compiled companion and the policy it belongs to.
type Attached struct {
	Policy policy.ID
	// Content is the input for the compiler of the policy.
	Content any
}

// Companion returns the kind of companions that an object belongs to, or nil if the family has no such kind.
func (f *Family) Companion(group, kind string) *Companion {
	for i := range f.Companions {
		if c := &f.Companions[i]; c.Group == group && c.Kind == kind {
			return c
		}
	}
	return nil
}
