package env

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"ephor.invalid/ephor/internal/cel/price"
)

// Function is a function of a library, with all its names. The declaration in the environment, the dispatch at run time and the
// documentation are derived from it.
type Function struct {
	// Names are all spellings, such as hash.sha1 and sha1. New policies should use the first one.
	Names []string
	// Member: the function is called on its first argument, as in x.f().
	Member bool
	// Overloads are the signatures, in the order in which they are tried.
	Overloads []Overload
	Doc       string
	Example   string // an expression that uses the first name
	Result    string // its value as JSON, in the World of the tests
	// call computes the value. Its arguments match one of the overloads and are not errors.
	call func(e *Scope, args []ref.Val) ref.Val
	// cost returns the additional cost of the call, in steps; nil means that of the text in its arguments.
	cost func(args []ref.Val) int
}

// Overload is one signature.
type Overload struct {
	Args   []*cel.Type
	Result *cel.Type
	// cluster and namespaced: the overload exists only in cluster-wide policies, or only in namespaced ones.
	cluster, namespaced bool
}

// Signature returns an overload in the form of the documentation.
func (f *Function) Signature(o Overload) string {
	args := make([]string, len(o.Args))
	for i, a := range o.Args {
		args[i] = a.String()
	}
	if f.Member {
		return fmt.Sprintf("%s.%s(%s) -> %s", args[0], f.Names[0], strings.Join(args[1:], ", "), o.Result)
	}
	return fmt.Sprintf("%s(%s) -> %s", f.Names[0], strings.Join(args, ", "), o.Result)
}

// Reaches returns the policies for which the overload exists.
func (o Overload) Reaches() (cluster, namespaced bool) { return !o.namespaced, !o.cluster }

func (o Overload) exists(d Declarations) bool {
	return !(o.cluster && d.Namespaced) && !(o.namespaced && !d.Namespaced)
}

// declare declares the function for the type checker. A node of our own executes calls (call.go), so the binding is never used.
func (f *Function) declare(d Declarations) []cel.EnvOption {
	var out []cel.EnvOption
	for _, name := range f.Names {
		var options []cel.FunctionOpt
		for _, o := range f.Overloads {
			if !o.exists(d) {
				continue
			}
			id := strings.ReplaceAll(name, ".", "_")
			for _, a := range o.Args {
				id += "_" + strings.NewReplacer("(", "_", ")", "", ", ", "_", ".", "_").Replace(a.String())
			}
			if f.Member {
				options = append(options, cel.MemberOverload(overloadPrefix+id, o.Args, o.Result, unused(len(o.Args))))
			} else {
				options = append(options, cel.Overload(overloadPrefix+id, o.Args, o.Result, unused(len(o.Args))))
			}
		}
		if len(options) > 0 {
			out = append(out, cel.Function(name, options...))
		}
	}
	return out
}

// unused returns the binding that the library requires.
func unused(args int) cel.OverloadOpt {
	value := types.NewErr("the call needs an evaluation")
	switch args {
	case 1:
		return cel.UnaryBinding(func(ref.Val) ref.Val { return value })
	case 2:
		return cel.BinaryBinding(func(ref.Val, ref.Val) ref.Val { return value })
	}
	return cel.FunctionBinding(func(...ref.Val) ref.Val { return value })
}

// Invoke charges for a call and computes its value. name is the spelling that the policy uses. The arguments are not errors.
func (f *Function) Invoke(e *Scope, name string, args []ref.Val) ref.Val {
	if !f.fits(args) {
		return noOverload(name, args)
	}
	if f.cost != nil {
		e.Charge(f.cost(args))
	} else {
		e.Charge(costOfText(args))
	}
	if e.Ended() {
		return types.WrapErr(price.ErrOutOfBudget)
	}
	return f.call(e, args)
}

// fits reports whether the arguments match an existing overload.
func (f *Function) fits(args []ref.Val) bool {
	for _, o := range f.Overloads {
		if len(o.Args) == len(args) && o.accepts(args) {
			return true
		}
	}
	return false
}

func (o Overload) accepts(args []ref.Val) bool {
	for i, t := range o.Args {
		switch t.Kind() {
		case types.DynKind, types.AnyKind, types.TypeParamKind:
		default:
			if !t.IsAssignableRuntimeType(args[i]) {
				return false
			}
		}
	}
	return true
}

func noOverload(name string, args []ref.Val) ref.Val {
	names := make([]string, len(args))
	for i, a := range args {
		names[i] = a.Type().TypeName()
	}
	return types.NewErr("no such overload: %s(%s)%s", name, strings.Join(names, ", "), nullIn(args))
}

// nullIn names an argument, or an element of one, that is null: most often an object that was looked up and does not exist.
func nullIn(args []ref.Val) string {
	const found = " is null, as what resource.get does not find"
	for i, a := range args {
		if a.Type() == types.NullType {
			return fmt.Sprintf(": argument %d%s", i+1, found)
		}
		list, ok := a.(traits.Lister)
		if !ok {
			continue
		}
		at := 0
		for it := list.Iterator(); it.HasNext() == types.True; at++ {
			if it.Next().Type() == types.NullType {
				return fmt.Sprintf(": element %d of argument %d%s", at, i+1, found)
			}
		}
	}
	return ""
}

// overloadPrefix is the prefix of the names of our Functions' overloads.
const overloadPrefix = "policies_"

// costOfText returns the cost of a call and of reading the text in its arguments.
func costOfText(args []ref.Val) int {
	n := 0
	for _, a := range args {
		switch x := a.(type) {
		case types.String:
			n += len(x)
		case types.Bytes:
			n += len(x)
		}
	}
	return price.NodeSteps + price.Steps(n, price.ReadBytes)
}
