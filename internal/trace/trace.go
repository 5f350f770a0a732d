package trace

import (
	"errors"
	"reflect"
	"time"
)

// Log is the record of one evaluation, rule by rule. A nil Log records nothing.
type Log struct {
	Rules []*Rule
}

// Rule is the record of one rule, in the order of the evaluation.
type Rule struct {
	Policy     string      `json:"policy"`
	Name       string      `json:"rule"`
	Clauses    []Clause    `json:"clauses,omitempty"`
	Context    []Variable  `json:"context,omitempty"`
	Variables  []Variable  `json:"variables,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	Patterns   []Pattern   `json:"patterns,omitempty"`
	Fields     []Field     `json:"fields,omitempty"`
	Attestors  []Attestor  `json:"attestors,omitempty"`
	// Dropped counts the records that exceeded the bound.
	Dropped int `json:"dropped,omitempty"`
}

// Clause is one attribute of a filter of match or exclude.
type Clause struct {
	Path  string `json:"path"` // field path in the policy, such as spec.rules[0].match.any[0].resources.kinds
	Want  any    `json:"want"` // the value in the policy
	Got   any    `json:"got"`  // the value in the request
	Holds bool   `json:"holds"`
	Error string `json:"error,omitempty"`
}

// Variable is an expression, or a context entry, with its result.
type Variable struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
	Error string `json:"error,omitempty"`
	Err   error  `json:"-"` // the error of Error
	// MissingKey is the key whose absence caused the error; empty for other errors.
	MissingKey string `json:"missingKey,omitempty"`
	// CEL: the expression is in CEL, and its Parts are in source order.
	CEL   bool   `json:"cel,omitempty"`
	Parts []Part `json:"parts,omitempty"`
}

// Part is a part of an expression with its result; inside a loop, the result for the last element.
type Part struct {
	Depth  int    `json:"depth"` // the number of enclosing parts
	Source string `json:"source"`
	Value  any    `json:"value"`
	Error  string `json:"error,omitempty"`
}

// Notation is a value without a JSON form, in the notation of CEL: optional.none(), duration("1h").
type Notation string

// Condition is one evaluated condition. Key and Value are the results of its sides; the sources are the texts in the policy.
type Condition struct {
	Path        string `json:"path"`
	KeySource   any    `json:"keySource"`
	Key         any    `json:"key"`
	Operator    string `json:"operator"`
	ValueSource any    `json:"valueSource"`
	Value       any    `json:"value"`
	Holds       bool   `json:"holds"`
	Error       string `json:"error,omitempty"`
	Err         error  `json:"-"` // the error of Error
}

// Pattern is the outcome of one pattern. Node is the part of the pattern that decided, At the place in the resource.
type Pattern struct {
	Path   string `json:"path"`
	Status string `json:"status"`
	Node   string `json:"node,omitempty"`
	Want   any    `json:"want,omitempty"` // the text of the deciding part
	At     string `json:"at,omitempty"`
	Cause  Cause  `json:"cause,omitempty"` // why the resource does not match; empty when it does
	Key    string `json:"key,omitempty"`   // for Missing: the key that is missing in the map at At; empty when At itself has no value
	// Mapping: the deciding part is a mapping, and At holds none.
	Mapping bool   `json:"mapping,omitempty"`
	Message string `json:"message,omitempty"`
}

// Cause is the way in which a part of a resource fails to match a part of a pattern. It is encoded by its name; zero means no cause.
type Cause uint8

// Missing: there is no value, or null. Present: a key exists that must not. NoElement: no element of a list matches. Value: a scalar has
// another value. Shape: a value is not a map, not a list, or a list of another length.
const (
	Missing Cause = 1 + iota
	Present
	NoElement
	Value
	Shape
)

var causes = [...]string{Missing: "missing", Present: "present", NoElement: "no-element", Value: "value", Shape: "shape"}

// String returns the name of the cause; empty for none.
func (c Cause) String() string {
	if int(c) >= len(causes) {
		return ""
	}
	return causes[c]
}

// MarshalText implements encoding.TextMarshaler.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Field is a field of the resource that violates a control of the Pod Security Standards.
type Field struct {
	Control string `json:"control"`
	Reason  string `json:"reason"`
	At      string `json:"at"`
	// Required: the field is not set and must be. Otherwise it holds Value, which is forbidden (nil: the field itself is forbidden).
	Required bool `json:"required"`
	Value    any  `json:"value,omitempty"`
}

// Attestor is the check whether an attestor signed an image, or a statement about it, with the signatures that were found.
type Attestor struct {
	Image string `json:"image"` // with its digest, if that is known
	Path  string `json:"path"`  // the attestor's field path in the rule, such as .attestors[0].entries[0].keys
	Wants string `json:"wants"` // the expected signer, in words
	Type  string `json:"type,omitempty"`
	Holds bool   `json:"holds"`
	// Unknown: the check was inconclusive. Error says why it does not hold.
	Unknown bool        `json:"unknown,omitempty"`
	Error   string      `json:"error,omitempty"`
	Found   []Signature `json:"found,omitempty"`
}

// Signature is a signature of an image, and whether it satisfies an attestor.
type Signature struct {
	Place string `json:"place"` // tag or digest, and layer
	// Kind is signature, attestation or bundle; Type is the type of its statement.
	Kind string `json:"kind"`
	Type string `json:"type,omitempty"`
	// Subjects and Issuer are those of the certificate; empty for a bare key. Key is the fingerprint of a bare key, or the key hint in
	// the signature; empty without a hint. The signer is proved only for accepted signatures.
	Subjects []string `json:"subjects,omitempty"`
	Issuer   string   `json:"issuer,omitempty"`
	Key      string   `json:"key,omitempty"`
	// Logged are the times of its log entries.
	Logged []time.Time `json:"logged,omitempty"`
	// Accepted: it satisfies the attestor. Otherwise Reason says why not, or, with Unknown, why the check was inconclusive.
	Accepted bool   `json:"accepted"`
	Unknown  bool   `json:"unknown,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// maxNotes bounds the records of each kind for one rule; a loop over thousands of elements repeats itself.
const maxNotes = 500

// Begin starts the record of a rule; policy is the key of its policy.
func (l *Log) Begin(policy, rule string) {
	if l != nil {
		l.Rules = append(l.Rules, &Rule{Policy: policy, Name: rule})
	}
}

// current returns the record of the current rule; nil when nothing is recorded.
func (l *Log) current() *Rule {
	if l == nil || len(l.Rules) == 0 {
		return nil
	}
	return l.Rules[len(l.Rules)-1]
}

// Clause records an attribute of a filter.
func (l *Log) Clause(c Clause) {
	if r := l.current(); r != nil {
		appendBounded(r, &r.Clauses, c)
	}
}

// Condition records a condition.
func (l *Log) Condition(c Condition) {
	if r := l.current(); r != nil {
		appendBounded(r, &r.Conditions, c)
	}
}

// Pattern records the outcome of a pattern.
func (l *Log) Pattern(p Pattern) {
	if r := l.current(); r != nil {
		appendBounded(r, &r.Patterns, p)
	}
}

// Field records a field that violates a control.
func (l *Log) Field(f Field) {
	if r := l.current(); r != nil {
		appendBounded(r, &r.Fields, f)
	}
}

// Attestor records the check of an attestor.
func (l *Log) Attestor(a Attestor) {
	if r := l.current(); r != nil {
		appendBounded(r, &r.Attestors, a)
	}
}

// Query records the result of an expression. The same expression with the same result is recorded once.
func (l *Log) Query(expression string, v any, err error) {
	if r := l.current(); r != nil {
		noteOnce(r, &r.Variables, variable(expression, v, err))
	}
}

// Expression records the result of an expression in CEL, with its parts. The same expression with the same result is recorded once.
func (l *Log) Expression(text string, v any, err error, parts []Part) {
	if r := l.current(); r != nil {
		if err != nil {
			v = nil
		}
		n := variable(text, v, err)
		n.CEL, n.Parts = true, parts
		noteOnce(r, &r.Variables, n)
	}
}

// Entry records the result of a context entry.
func (l *Log) Entry(name string, v any, err error) {
	if r := l.current(); r != nil {
		noteOnce(r, &r.Context, variable(name, v, err))
	}
}

func appendBounded[T any](r *Rule, list *[]T, n T) {
	if len(*list) >= maxNotes {
		r.Dropped++
		return
	}
	*list = append(*list, n)
}

func noteOnce(r *Rule, list *[]Variable, v Variable) {
	plain := v
	plain.Err = nil
	for _, known := range *list {
		if known.Err = nil; known.Name == v.Name && reflect.DeepEqual(known, plain) {
			return
		}
	}
	appendBounded(r, list, v)
}

// missingKey is the error of a query that reads a key that an object does not have.
type missingKey interface{ MissingKey() string }

func variable(name string, v any, err error) Variable {
	out := Variable{Name: name, Value: v}
	if err != nil {
		out.Error, out.Err = err.Error(), err
		if missing := missingKey(nil); errors.As(err, &missing) {
			out.MissingKey = missing.MissingKey()
		}
	}
	return out
}
