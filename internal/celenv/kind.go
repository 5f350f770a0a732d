package celenv

// Kind says for which kind of policy expressions are written. It decides which libraries they have.
type Kind uint8

// The kinds. Native is the environment of the API server's own admission policies; ImageReferences is that of the expressions that
// select images, Exempting that of the conditions of exceptions in a cluster, which have none of the libraries of policies, and HTTPChecks and
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

// Sets of kinds that libraries are for.
var (
	everyPolicy = kindsOf(Validating, Mutating, Generating, Deleting, ImageValidating)
	withUser    = kindsOf(Validating, Mutating, ImageValidating)
	withX509    = kindsOf(Validating, Mutating, Generating, Deleting)
	withImages  = everyPolicy | checks | kindsOf(ImageReferences)
	checks      = kindsOf(HTTPChecks, EnvoyChecks)
)

// Mode says what expressions are evaluated on.
type Mode uint8

// The modes. Kubernetes is an object of the cluster with its request; JSON is any document, where request, oldObject and
// namespaceObject are null.
const (
	Kubernetes Mode = iota
	JSON
)

// Declarations say in which environment expressions are compiled.
type Declarations struct {
	// Kind is the kind of the policy.
	Kind Kind
	// Mode is what the policy is about.
	Mode Mode
	// Namespaced: the policy belongs to a namespace. The functions of `resource` and `generator` then have no argument for the
	// namespace: they always mean that of the policy.
	Namespaced bool
	// Params declares `params`, in the API server's own policies.
	Params bool
}
