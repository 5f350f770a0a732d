package condition

import (
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/budget"
)

// Operator is one way to compare a key with a value.
type Operator struct {
	// Name is the operator as policies write it; Aliases are other spellings.
	Name    string
	Aliases []string
	// Replacements are the operators to use instead of a deprecated one whose use causes a warning. Deprecated: the
	// operator is kept only for old policies.
	Deprecated   bool
	Replacements []string
	// Doc describes in a sentence when the operator holds.
	Doc string
	// Examples are run as tests.
	Examples []Example

	// prepare prepares a value for comparisons. It never fails: a value of an unsupported type gives an operand that
	// never holds. once: the operand is for a single key, so preparing a fast lookup is not worth its cost.
	prepare func(value any, once bool) operand
}

// Example is one evaluation of an operator.
type Example struct {
	Key, Value any
	Want       bool
}

// operand is the right side of a condition, prepared for evaluating keys. It is immutable.
type operand interface {
	evaluateKey(m *budget.Meter, key any) (bool, error)
}

// never is the operand for a value that the operator cannot compare with.
type never struct{}

func (never) evaluateKey(*budget.Meter, any) (bool, error) { return false, nil }

// registry is the fixed set of operators, in the order of the documentation.
var registry = newRegistry(
	equals, notEquals,
	anyIn, allIn, anyNotIn, allNotIn,
	in, notIn,
	greaterThan, greaterThanOrEquals, lessThan, lessThanOrEquals,
	durationGreaterThan, durationGreaterThanOrEquals, durationLessThan, durationLessThanOrEquals,
)

type operators struct {
	list   []*Operator
	names  []string             // names and aliases in order
	byName map[string]*Operator // by exact name
	folded map[string]*Operator // by lower-case name
}

// newRegistry panics on a name that occurs twice, a bug in this package that any test finds.
func newRegistry(list ...*Operator) *operators {
	r := &operators{list: list, byName: map[string]*Operator{}, folded: map[string]*Operator{}}
	for _, op := range list {
		for _, name := range append([]string{op.Name}, op.Aliases...) {
			if r.folded[strings.ToLower(name)] != nil {
				panic("condition: operator " + name + " is declared twice")
			}
			r.names = append(r.names, name)
			r.byName[name] = op
			r.folded[strings.ToLower(name)] = op
		}
	}
	return r
}

// Operators returns all operators in the order of the documentation.
func Operators() []*Operator { return registry.list }

// Evaluate applies the operator to constants, without variables.
func (op *Operator) Evaluate(key, value any) bool {
	ok, _ := op.prepare(value, true).evaluateKey(nil, key)
	return ok
}

// invalidOperator is Kyverno's text for an operator that does not exist.
func invalidOperator() string {
	return fmt.Sprintf("entered value of `operator` is invalid. valid values: %q", registry.names)
}
