package celrule

// Options are the ways in which languages differ. The zero Options are those of the API server's admission policies.
type Options struct {
	// EmptyObjects: object and oldObject are empty maps where the request has no such object. The fields request.object and
	// request.oldObject exist, and are null there.
	EmptyObjects bool
	// OmitEmpty: what the request says nothing about, such as a name or the user, is not there, instead of being empty.
	OmitEmpty bool
	// StrictTexts: a messageExpression or an audit annotation without a value is an error, and a message is taken as it is.
	StrictTexts bool
}

// Policies are the Options of the policies of policies.kyverno.io.
var Policies = Options{EmptyObjects: true, OmitEmpty: true, StrictTexts: true}
