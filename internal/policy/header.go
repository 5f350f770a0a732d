package policy

// Header holds the literal conditions of a rule's match and exclude blocks. It selects all requests for which Match returns true or
// an error, and perhaps others. It is for decisions before an evaluation, without lookups, such as the conditions of a webhook.
type Header struct {
	// Namespace is the namespace of a namespaced policy, which matches nothing in other namespaces; empty for cluster-scoped policies.
	Namespace string
	// Filters are the filters of the match block; there is at least one. If All is set, all of them must match, otherwise any.
	Filters []Literals
	All     bool
	// Without are the filters of the exclude block that can be expressed exactly: if one of them matches, Match returns false without
	// an error. Their kinds are left out, since they cover everything that the match block selects.
	Without []Literals
}

// Literals are the conditions of one filter; all of them must be true. A nil field sets no condition.
type Literals struct {
	Operations []Operation
	// Names are names of objects. An object without a name may match.
	Names []string
	// Namespaces are names of namespaces. A Namespace matches by its own name.
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
