package diag

// Code identifies the meaning of a diagnostic. Code that has to recognize a mistake compares the code, never the text: the text is for
// people. Users see codes in the output of `ephor lint`, so a code never changes its name or its meaning.
//
// A diagnostic has a code only if some code has to recognize it; otherwise its text is sufficient.
type Code string

// Mistakes in the values of fields, with the API server's texts. The methods Required, Invalid, Unsupported, Forbidden, TooLong, TooMany
// and Duplicate add these.
const (
	Required         Code = "required"          // a field is not set, and has to be
	InvalidValue     Code = "invalid-value"     // a field has a value that it may not have
	UnsupportedValue Code = "unsupported-value" // a field has a value that is not in its list of values
	Forbidden        Code = "forbidden"         // a field is set, or missing, and another field does not allow that
	TooLong          Code = "too-long"          // a text or a list is longer than the field may be
)

// Mistakes in the form of objects.
const (
	UnknownField Code = "unknown-field" // Name is the unknown field
	WrongType    Code = "wrong-type"    // a field has a value of another type
	NotSupported Code = "not-supported" // this version does not apply objects of the kind Name
	NotAPolicy   Code = "not-a-policy"  // an object of the kind Name is where a policy is expected
)

// Files that are not YAML.
const (
	HelmTemplate Code = "helm-template" // a document is a template of Helm that is not rendered
	NotAnObject  Code = "not-an-object" // a document has neither a kind nor the fields of objects, such as a values file of Helm
)

// Runs.
const (
	// Unchecked: a policy, a rule, an exception or a whole run has no effect. With --strict, commands then exit with 1.
	Unchecked Code = "unchecked"
)

// Variables.
const (
	// UnknownVariable: the rule does not define the variable Name, and it is not one that every rule has.
	UnknownVariable Code = "unknown-variable"
	// VariablePlace: a variable is in a place where variables are not substituted.
	VariablePlace Code = "variable-place"
	// NoRequester: the rule uses data of the requester, but is evaluated without a request.
	NoRequester Code = "no-requester"
	// ElementOutsideForeach: the variable Name, an element of a foreach, is used outside the foreach.
	ElementOutsideForeach Code = "element-outside-foreach"
)

// What rules match.
const (
	// BackgroundKind: a background scan cannot list the kind, because it has a wildcard or is a subresource.
	BackgroundKind Code = "background-kind"
)

// Images.
const ()

// Deprecated values. Each is accepted with a warning.
const (
	DeprecatedAction   Code = "deprecated-action"   // enforce or audit instead of Enforce or Audit
	DeprecatedOperator Code = "deprecated-operator" // an operator of conditions that was replaced by others
)

// Rights. Only admission checks them.
const (
	MissingRights Code = "missing-rights" // an account lacks rights that the policy needs
	UnknownRights Code = "unknown-rights" // the rights of the account Name cannot be looked up
)

// CodeDoc describes a code for users.
type CodeDoc struct {
	Code Code
	Doc  string // one sentence: what is wrong with the policy
}

// codes is in the order of the constants.
var codes = []CodeDoc{
	{Required, "A field is not set, and must be."},
	{InvalidValue, "A field has a value that it may not have."},
	{UnsupportedValue, "A field has a value that is not in its list of values."},
	{Forbidden, "A field is set, or missing, and another field does not allow that."},
	{TooLong, "A text or a list is longer than the field may be."},
	{UnknownField, "The type of the object has no such field."},
	{WrongType, "A field has a value of another type, such as a number where a string is expected."},
	{NotSupported, "This version does not apply objects of this kind."},
	{NotAPolicy, "An object that is not a policy is in a place where policies are read."},
	{HelmTemplate, "The document is a template of Helm that is not rendered. Render it first, with helm template."},
	{NotAnObject, "The document has neither a kind nor the fields metadata and spec, as objects of Kubernetes do."},
	{Unchecked, "A policy, a rule, an exception or a whole run has no effect, so that something is not checked."},
	{UnknownVariable, "The rule does not define the variable, and it is not one that every rule knows."},
	{VariablePlace, "A variable is in a place where variables are not substituted."},
	{NoRequester, "The rule uses data of the requester, and runs without a request: in background scans, or when the policy changes."},
	{ElementOutsideForeach, "A variable that is an element of a foreach is used outside the foreach."},
	{BackgroundKind, "A background scan cannot list the kind: it has a wildcard, or is a subresource."},
	{DeprecatedAction, "The failure action is written enforce or audit instead of Enforce or Audit."},
	{DeprecatedOperator, "The operator of a condition is deprecated and was replaced by others."},
	{MissingRights, "An account lacks rights that the policy needs. Only admission checks this."},
	{UnknownRights, "The rights of an account cannot be looked up. Only admission checks this."},
}

// Codes lists all codes with their meaning.
func Codes() []CodeDoc { return append([]CodeDoc(nil), codes...) }
