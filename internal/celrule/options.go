package celrule

// Options are the differences between languages. The zero Options are those of the API server's admission policies.
type Options struct {
	// EmptyObjects: object and oldObject are empty maps if the request has no such object. The fields request.object and
	// request.oldObject exist, and are null then.
	EmptyObjects bool
	// OmitEmpty: fields that the request does not set, such as a name or the user, are missing instead of empty.
	OmitEmpty bool
	// StrictTexts: a messageExpression or an audit annotation that cannot be evaluated is an error, and a message is used
	// unchanged.
	StrictTexts bool
	// OwnNamespace: the namespace of a Namespace is the Namespace itself. Otherwise it has none, as other cluster-scoped objects.
	OwnNamespace bool
}

// Policies are the Options of the policies of policies.kyverno.io.
var Policies = Options{EmptyObjects: true, OmitEmpty: true, StrictTexts: true}
