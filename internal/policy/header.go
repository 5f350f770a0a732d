package policy

// Header holds what the match and exclude blocks of a rule say with literals alone: it selects a superset of the requests for which Match
// is anything but (false, nil). It serves decisions before an evaluation, without lookups, such as the conditions of a webhook.
type Header struct {
	// Namespace is that of a namespaced policy, which matches nothing elsewhere; empty for cluster-scoped policies.
	Namespace string
	// Filters are those of the match block, at least one: every one of them has to hold when All is set, else any.
	Filters []Literals
	All     bool
	// Without are filters of the exclude block that are known exactly: Match is false and no error where one holds. What
	// they say of kinds is left out, since it holds for whatever the match block selects.
	Without []Literals
}

// Literals are the conditions of one filter; all of them have to hold. What is nil is not restricted.
type Literals struct {
	Operations []Operation
	// Names holds names of objects; an object that is still without one may fulfil it.
	Names []string
	// Namespaces holds names of namespaces; a Namespace fulfils it by its own name.
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
