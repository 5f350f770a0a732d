package trace

import (
	"errors"
	"reflect"
	"time"
)

// Log is what was noted of one evaluation, rule by rule. The nil Log takes no notes.
type Log struct {
	Rules []*Rule
}

// Rule are the notes of one rule, in the order in which things happened.
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
	// Dropped counts the notes that did not fit.
	Dropped int `json:"dropped,omitempty"`
}

// Clause is one attribute of a filter of match or exclude.
type Clause struct {
	Path  string `json:"path"` // in the policy, such as spec.rules[0].match.any[0].resources.kinds
	Want  any    `json:"want"` // as the policy says it
	Got   any    `json:"got"`  // what the request has there
	Holds bool   `json:"holds"`
	Error string `json:"error,omitempty"`
}

// Variable is an expression, or an entry of the context, with what it gave.
type Variable struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
	Error string `json:"error,omitempty"`
	// MissingKey is the key whose absence is the error; empty for other errors.
	MissingKey string `json:"missingKey,omitempty"`
	// CEL: it is an expression of that language, whose Parts follow in the order in which they are written.
	CEL   bool   `json:"cel,omitempty"`
	Parts []Part `json:"parts,omitempty"`
}

// Part is a part of an expression with what it gave; inside of a loop, for the element that was looked at last.
type Part struct {
	Depth  int    `json:"depth"` // how many other parts it is in
	Source string `json:"source"`
	Value  any    `json:"value"`
	Error  string `json:"error,omitempty"`
}

// Notation is a value that JSON has no form for, as expressions in CEL write it: optional.none(), duration("1h").
type Notation string

// Condition is one evaluated condition. Key and Value are what its sides gave; the sources are what the policy says.
type Condition struct {
	Path        string `json:"path"`
	KeySource   any    `json:"keySource"`
	Key         any    `json:"key"`
	Operator    string `json:"operator"`
	ValueSource any    `json:"valueSource"`
	Value       any    `json:"value"`
	Holds       bool   `json:"holds"`
	Error       string `json:"error,omitempty"`
}

// Pattern is the outcome of one pattern. Node is the part of the pattern that decided, At the place in the resource.
type Pattern struct {
	Path   string `json:"path"`
	Status string `json:"status"`
	Node   string `json:"node,omitempty"`
	Want   any    `json:"want,omitempty"` // what the deciding part says
	At     string `json:"at,omitempty"`
	Cause  Cause  `json:"cause,omitempty"` // why it does not fit; empty when it does
	Key    string `json:"key,omitempty"`   // for Missing: the key that the map at At does not have; empty when At itself has no value
	// Mapping: the deciding part is a mapping, and there is none at At.
	Mapping bool   `json:"mapping,omitempty"`
	Message string `json:"message,omitempty"`
}

// Cause says in what way a part of a resource does not fit a part of a pattern. It is written by its name; zero is no cause.
type Cause uint8

// Missing: there is no value, or null. Present: there is a key that may not be there. NoElement: no element of a list fits. Value: a
// scalar has another value. Shape: a value is no map, no list, or a list of another length.
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

// Field is a field of the resource that a control of the Pod Security Standards blames.
type Field struct {
	Control string `json:"control"`
	Reason  string `json:"reason"`
	At      string `json:"at"`
	// Required: the field is not set and has to be; otherwise it holds Value, which is forbidden (nil: the field itself is).
	Required bool `json:"required"`
	Value    any  `json:"value,omitempty"`
}

// Attestor is the question whether an attestor signed an image, or a statement about it, with the signatures that were found.
type Attestor struct {
	Image string `json:"image"` // by its digest, where that is known
	Path  string `json:"path"`  // the attestor in the rule, such as .attestors[0].entries[0].keys
	Wants string `json:"wants"` // whose signature, in words
	Type  string `json:"type,omitempty"`
	Holds bool   `json:"holds"`
	// Unknown: it could not be found out. Error says why it does not hold.
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
	// Subjects and Issuer are those of the certificate; none for a bare key. Key is the fingerprint of a bare key, or what the signature
	// says of it; empty when it says nothing. Only accepted signatures are proved to be by this signer.
	Subjects []string `json:"subjects,omitempty"`
	Issuer   string   `json:"issuer,omitempty"`
	Key      string   `json:"key,omitempty"`
	// Logged are the times of its log entries.
	Logged []time.Time `json:"logged,omitempty"`
	// Accepted: it satisfies the attestor. Else Reason says why not; with Unknown that could not be found out.
	Accepted bool   `json:"accepted"`
	Unknown  bool   `json:"unknown,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// maxNotes bounds the notes of each sort that one rule may leave; a loop over thousands of elements repeats itself.
const maxNotes = 500

// Begin opens the notes of a rule; policy is its policy's key.
func (l *Log) Begin(policy, rule string) {
	if l != nil {
		l.Rules = append(l.Rules, &Rule{Policy: policy, Name: rule})
	}
}

// current are the notes of the rule at hand; nil when none are taken.
func (l *Log) current() *Rule {
	if l == nil || len(l.Rules) == 0 {
		return nil
	}
	return l.Rules[len(l.Rules)-1]
}

// Clause notes an attribute of a filter.
func (l *Log) Clause(c Clause) {
	if r := l.current(); r != nil {
		note(r, &r.Clauses, c)
	}
}

// Condition notes a condition.
func (l *Log) Condition(c Condition) {
	if r := l.current(); r != nil {
		note(r, &r.Conditions, c)
	}
}

// Pattern notes the outcome of a pattern.
func (l *Log) Pattern(p Pattern) {
	if r := l.current(); r != nil {
		note(r, &r.Patterns, p)
	}
}

// Field notes a field that is blamed.
func (l *Log) Field(f Field) {
	if r := l.current(); r != nil {
		note(r, &r.Fields, f)
	}
}

// Attestor notes what became of an attestor.
func (l *Log) Attestor(a Attestor) {
	if r := l.current(); r != nil {
		note(r, &r.Attestors, a)
	}
}

// Query notes what an expression gave. The same expression with the same result is noted once.
func (l *Log) Query(expression string, v any, err error) {
	if r := l.current(); r != nil {
		noteOnce(r, &r.Variables, variable(expression, v, err))
	}
}

// Expression notes what an expression in CEL gave, with its parts. The same with the same result is noted once.
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

// Entry notes what an entry of the context gave.
func (l *Log) Entry(name string, v any, err error) {
	if r := l.current(); r != nil {
		noteOnce(r, &r.Context, variable(name, v, err))
	}
}

func note[T any](r *Rule, list *[]T, n T) {
	if len(*list) >= maxNotes {
		r.Dropped++
		return
	}
	*list = append(*list, n)
}

func noteOnce(r *Rule, list *[]Variable, v Variable) {
	for i := range *list {
		if (*list)[i].Name == v.Name && reflect.DeepEqual((*list)[i], v) {
			return
		}
	}
	note(r, list, v)
}

// missingKey is the error of a query that asks for a key that an object does not have.
type missingKey interface{ MissingKey() string }

func variable(name string, v any, err error) Variable {
	out := Variable{Name: name, Value: v}
	if err != nil {
		out.Error = err.Error()
		if missing := missingKey(nil); errors.As(err, &missing) {
			out.MissingKey = missing.MissingKey()
		}
	}
	return out
}
