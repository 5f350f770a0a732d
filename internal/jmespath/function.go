package jmespath

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Type is a type of a function's argument or result.
type Type string

// The types of the language. Null is the value of a missing argument; only Any accepts it.
const (
	Any         Type = "any"
	Number      Type = "number"
	String      Type = "string"
	Boolean     Type = "boolean"
	Array       Type = "array"
	Object      Type = "object"
	ArrayNumber Type = "array[number]"
	ArrayString Type = "array[string]"
	Expression  Type = "expref"
)

// Function declares one function of the language: all information for documentation, `jp function` and the evaluator.
type Function struct {
	Name string
	// Args holds the types that each argument may have.
	Args [][]Type
	// Variadic functions accept any number of further arguments, and check them themselves.
	Variadic bool
	Returns  []Type
	// Builtin marks the functions of standard JMESPath.
	Builtin bool
	// Doc describes in one or a few sentences what the function does.
	Doc      string
	Examples []Example

	call callFunc
	// prepare, if set, may return a faster call based on the arguments that are literals.
	prepare func(args []literalArg) callFunc
	// regex: the first argument is a regular expression.
	regex bool
}

// Example is one use of a function. Examples run as tests.
type Example struct {
	Expression string
	// Input is the document, as JSON; empty for null.
	Input string
	// Result is the expected result as JSON, Error the text of the expected error instead.
	Result, Error string
}

type callFunc func(env *Env, args []any) (any, error)

// literalArg is an argument at compile time: its value is known only if it is a literal.
type literalArg struct {
	value any
	known bool
}

// Signature returns the function's name with the types of its arguments and of its result: lookup(object|array, string|number)
// any.
func (f *Function) Signature() string {
	args := make([]string, len(f.Args))
	for i, types := range f.Args {
		args[i] = joinTypes(types)
	}
	if f.Variadic {
		args[len(args)-1] += "..."
	}
	return fmt.Sprintf("%s(%s) %s", f.Name, strings.Join(args, ", "), joinTypes(f.Returns))
}

func joinTypes(types []Type) string {
	s := make([]string, len(types))
	for i, t := range types {
		s[i] = string(t)
	}
	return strings.Join(s, "|")
}

// Functions returns the functions of the language, sorted by name.
func Functions() []Function {
	out := make([]Function, 0, len(registry))
	for _, f := range registry {
		out = append(out, *f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

var registry = map[string]*Function{}

// register adds a function. Each fn_*.go calls it once, from its init.
func register(f Function) {
	if registry[f.Name] != nil || f.call == nil {
		panic("jmespath: function " + f.Name + " is declared twice or not at all")
	}
	registry[f.Name] = &f
}

func compileCall(n *node) eval {
	f := registry[n.name]
	args := compileAll(n.items)
	if f == nil {
		unknown := &UnknownFunctionError{n.name}
		return func(env *Env, v any) (any, error) {
			// The arguments are evaluated first, because their errors are more informative.
			if _, err := evalArgs(env, args, v); err != nil {
				return nil, err
			}
			return nil, unknown
		}
	}
	call := f.call
	if f.prepare != nil && len(n.items) == len(f.Args) {
		literals := make([]literalArg, len(n.items))
		for i, item := range n.items {
			literals[i] = literalArg{item.literal, item.kind == nLiteral}
		}
		if prepared := f.prepare(literals); prepared != nil {
			call = prepared
		}
	}
	return func(env *Env, v any) (any, error) {
		values, err := evalArgs(env, args, v)
		if err != nil {
			return nil, err
		}
		if err := f.check(values); err != nil {
			return nil, err
		}
		out, err := call(env, values)
		if err != nil {
			return nil, failedCall(err)
		}
		return out, nil
	}
}

// callSteps is the cost of a call, and readPerStep the number of bytes that a function reads in one step. Functions that take longer charge
// for themselves.
const callSteps, readPerStep = 4, 4

func evalArgs(env *Env, args []eval, v any) ([]any, error) {
	steps := callSteps
	values := make([]any, len(args))
	for i, arg := range args {
		var err error
		if values[i], err = arg(env, v); err != nil {
			return nil, err
		}
		if s, ok := values[i].(string); ok {
			steps += len(s) / readPerStep
			continue
		}
		steps += size(values[i])
	}
	return values, env.step(steps)
}

// Kyverno's words for a wrong number of arguments.
const (
	textArgs  = "incorrect number of args"
	textArity = "Invalid arity."
)

// check checks the number and the types of arguments. Errors name the type as Kyverno prints it.
func (f *Function) check(values []any) error {
	if f.Variadic {
		if len(values) < len(f.Args) {
			return &arityError{textArity, f.Name, len(f.Args), len(values), true}
		}
		for i, v := range values {
			if !is(v, Any) {
				return f.typeError(i, v, f.Args[0])
			}
		}
		return nil
	}
	if len(f.Args) == 0 {
		return nil // Kyverno makes no check here: it accepts time_now('x')
	}
	if len(values) != len(f.Args) {
		return &arityError{textArgs, f.Name, len(f.Args), len(values), false}
	}
	for i, v := range values {
		if !slices.ContainsFunc(f.Args[i], func(t Type) bool { return is(v, t) }) {
			return f.typeError(i, v, f.Args[i])
		}
	}
	return nil
}

// maxShown bounds the part of a value that an error message shows.
const maxShown = 4096

func (f *Function) typeError(index int, v any, want []Type) error {
	given, quoted := v, make([]string, len(want))
	for i, t := range want {
		quoted[i] = fmt.Sprintf("%q", string(t))
	}
	if _, ok := v.(*expref); ok {
		v = "&expression"
	}
	shown := ""
	if value.TextLength(v, maxShown) > maxShown {
		shown = value.Print(v, maxShown)
	} else {
		shown = fmt.Sprint(floats(v))
	}
	return &argumentError{
		fmt.Sprintf("Invalid type for: %s, expected: []jmespath.JpType{%s}", shown, strings.Join(quoted, ", ")), f.Name, index, want, given,
	}
}

func is(v any, t Type) bool {
	switch t {
	case Any:
		_, ref := v.(*expref) // an expression is not a value: only functions that declare it accept one
		return !ref
	case Number:
		_, ok := value.Float(v)
		return ok
	case String:
		_, ok := v.(string)
		return ok
	case Boolean:
		_, ok := v.(bool)
		return ok
	case Array:
		_, ok := v.([]any)
		return ok
	case Object:
		_, ok := v.(map[string]any)
		return ok
	case Expression:
		_, ok := v.(*expref)
		return ok
	case ArrayNumber:
		return all(v, Number)
	}
	return all(v, String)
}

func all(v any, t Type) bool {
	list, ok := v.([]any)
	if !ok {
		return false
	}
	for _, item := range list {
		if !is(item, t) {
			return false
		}
	}
	return true
}

// one returns a list of argument types in which each argument has one type.
func one(types ...Type) [][]Type {
	out := make([][]Type, len(types))
	for i, t := range types {
		out[i] = []Type{t}
	}
	return out
}

// number returns a number argument whose type was checked.
func number(v any) float64 {
	f, _ := value.Float(v)
	return f
}
