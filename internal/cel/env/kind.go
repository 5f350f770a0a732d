package env

import "ephor.invalid/ephor/internal/kubeversion"

// Kind is the kind of policy to which expressions belong. It determines which libraries they can use.
type Kind uint8

// The kinds. Native is the environment of the API server's own admission policies. ImageReferences is the environment of expressions that
// select images. Exempting is that of the conditions of exceptions in a cluster, which have none of the libraries of policies. HTTPChecks and
// EnvoyChecks are those of policies for check requests of proxies.
const (
	Native Kind = iota
	Validating
	Mutating
	Generating
	Deleting
	ImageValidating
	ImageReferences
	Exempting
	HTTPChecks
	EnvoyChecks
)

// Kinds is a set of Kinds.
type Kinds uint16

func kindsOf(list ...Kind) Kinds {
	var out Kinds
	for _, k := range list {
		out |= 1 << k
	}
	return out
}

// Has reports whether k is in the set.
func (s Kinds) Has(k Kind) bool { return s&(1<<k) != 0 }

// The sets of kinds that libraries use.
var (
	everyPolicy = kindsOf(Validating, Mutating, Generating, Deleting, ImageValidating)
	withUser    = kindsOf(Validating, Mutating, ImageValidating)
	withX509    = kindsOf(Validating, Mutating, Generating, Deleting)
	withImages  = everyPolicy | checks | kindsOf(ImageReferences)
	checks      = kindsOf(HTTPChecks, EnvoyChecks)
)

// Mode is the type of input on which expressions are evaluated.
type Mode uint8

// The modes. In mode Kubernetes, the input is an object of the cluster with its request. In mode JSON, it is any
// document, and request, oldObject and namespaceObject are null.
const (
	Kubernetes Mode = iota
	JSON
)

// Declarations describe the environment in which expressions are compiled.
type Declarations struct {
	// Kind is the kind of the policy.
	Kind Kind
	// Mode is the type of input that the policy evaluates.
	Mode Mode
	// Namespaced: the policy is namespaced. Then the functions of `resource` and `generator` have no argument for the
	// namespace, and always use the namespace of the policy.
	Namespaced bool
	// Params declares the variable `params`, for the API server's own policies.
	Params bool
	// Server is the version of the API server whose functions expressions have.
	Server kubeversion.Minor
	// Trigger declares the variable `trigger`, for policies that change other objects than that of the request.
	Trigger bool
}
