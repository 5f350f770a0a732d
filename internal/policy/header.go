package policy

// Header holds the literal conditions of a rule's match and exclude blocks: it selects a superset of the requests for which Match is
// anything but (false, nil). It is for decisions before an evaluation, without lookups, such as the conditions of a webhook.
type Header struct {
	// Namespace is that of a namespaced policy, which matches nothing in other namespaces; empty for cluster-scoped policies.
	Namespace string
	// Filters are those of the match block, at least one: all of them must match if All is set, else any.
	Filters []Literals
	All     bool
	// Without are filters of the exclude block that are known exactly: if one matches, Match is false without an error. Their kinds are
	// left out, since they cover everything that the match block selects.
	Without []Literals
}

// Literals are the conditions of one filter; all of them must be true. A nil field is no condition.
type Literals struct {
	Operations []Operation
	// Names holds names of objects; an object without a name may match.
	Names []string
	// Namespaces holds names of namespaces; a Namespace matches by its own name.
	Namespaces []string
	// Labels are requirements on the object's labels.
	Labels []LabelRequirement
	// Users, Groups: the requester is one of the users or in one of the groups; both nil for any requester.
	Users, Groups []string
}

// LabelRequirement is one requirement on labels, as in a matchExpression: In, NotIn, Exists or DoesNotExist.
type LabelRequirement struct {
	Key, Operator string
	Values        []string
}
