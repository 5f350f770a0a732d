package celenv

import (
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
)

// path is a name with members behind it, such as object.spec.?volumes, read from decoded JSON without values of the language in between.
// Whatever is not as expected (a missing member, an index, a value that is no JSON) is left to the library's attribute, which it
// embeds and which makes the errors.
type path struct {
	interpreter.InterpretableAttribute
	root  root
	name  string
	index int // of a variable
	steps []pathStep
	other bool // there are qualifiers that are no names
	tests bool // the last step asks only whether the member is there
}

type pathStep struct {
	name     string
	optional bool
}

// root is what a path begins with.
type root uint8

const (
	rootOther root = iota // a name that the library resolves, such as the variable of a macro
	rootObject
	rootOldObject
	rootVariable
)

// newPath takes over an attribute that is a name so far.
func newPath(a interpreter.InterpretableAttribute, in *planning) *path {
	named, ok := a.Attr().(interpreter.NamespacedAttribute)
	if !ok || len(named.CandidateVariableNames()) != 1 || len(named.Qualifiers()) != 0 {
		return nil
	}
	p := &path{InterpretableAttribute: a, name: named.CandidateVariableNames()[0]}
	if !in.locals[p.name] {
		switch strings.TrimPrefix(p.name, ".") {
		case plugincel.ObjectVarName:
			p.root = rootObject
		case plugincel.OldObjectVarName:
			if in.declared.Kind != Deleting {
				p.root = rootOldObject
			}
		}
	}
	return p
}

// Attr is the path itself, so that decorators know it when it comes again.
func (p *path) Attr() interpreter.Attribute { return p }

// AddQualifier implements the library's interface.
func (p *path) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	if _, err := p.InterpretableAttribute.AddQualifier(q); err != nil {
		return nil, err
	}
	constant, ok := q.(interpreter.ConstantQualifier)
	if !ok {
		p.other = true
		return p, nil
	}
	name, ok := constant.Value().(types.String)
	if !ok {
		p.other = true
		return p, nil
	}
	p.steps = append(p.steps, pathStep{string(name), q.IsOptional()})
	p.tests = isTest(q)
	return p, nil
}

// isTest reports whether the qualifier is one of has(). The type has no exported name.
func isTest(q interpreter.Qualifier) bool {
	return reflect.TypeOf(q).String() == "*interpreter.testOnlyQualifier"
}

// IsOptional implements the library's interface.
func (p *path) IsOptional() bool { return p.InterpretableAttribute.IsOptional() }

// found is how far a path could be followed.
type found uint8

const (
	elsewhere found = iota // the library has to find out
	absent                 // an optional member is not there
	present
)

// find follows the path. optional is whether a member on it is optional, so that the value is too.
func (p *path) find(vars interpreter.Activation) (v any, optional bool, f found) {
	if p.other {
		return nil, false, elsewhere
	}
	steps := p.steps
	switch p.root {
	case rootOther:
		var ok bool
		if v, ok = vars.ResolveName(p.name); !ok {
			return nil, false, elsewhere
		}
	default:
		e := evaluationOf(vars)
		if e == nil {
			return nil, false, elsewhere
		}
		switch p.root {
		case rootObject:
			v = e.in.Object
		case rootOldObject:
			v = e.in.OldObject
		case rootVariable:
			v, steps = e.variable(p.index), steps[1:]
		}
	}
	for i := range steps {
		var m map[string]any
		switch x := v.(type) {
		case jsonMap:
			m = x
		case map[string]any:
			m = x
		default:
			return nil, false, elsewhere
		}
		step := &steps[i]
		optional = optional || step.optional
		next, ok := m[step.name]
		switch {
		case ok:
			v = next
		case optional:
			return nil, true, absent
		case p.tests && i == len(steps)-1:
			return nil, false, absent
		default:
			return nil, false, elsewhere
		}
	}
	return v, optional, present
}

// Eval implements the library's interface.
func (p *path) Eval(vars interpreter.Activation) ref.Val {
	v, optional, f := p.find(vars)
	switch {
	case f == elsewhere:
		return p.InterpretableAttribute.Eval(vars)
	case f == absent:
		return types.OptionalNone
	case optional:
		return types.OptionalOf(natively.NativeToValue(v))
	}
	if ready, ok := v.(ref.Val); ok {
		return ready
	}
	return p.Adapter().NativeToValue(v)
}

// Resolve implements the library's interface.
func (p *path) Resolve(vars interpreter.Activation) (any, error) {
	if v, optional, f := p.find(vars); f == present && !optional && !types.IsError(asValue(v)) {
		return v, nil
	}
	return p.InterpretableAttribute.Resolve(vars)
}

func asValue(v any) ref.Val {
	out, _ := v.(ref.Val)
	return out
}

// test is has() of a path.
type test struct {
	interpreter.InterpretableAttribute
	of *path
}

// Eval implements the library's interface.
func (t *test) Eval(vars interpreter.Activation) ref.Val {
	if _, optional, f := t.of.find(vars); !optional && f != elsewhere {
		return types.Bool(f == present)
	}
	return t.InterpretableAttribute.Eval(vars)
}
