package run

import (
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/values"
)

// path is a name followed by members, such as object.spec.?volumes. It is read from decoded JSON without intermediate CEL values. All
// other cases (a missing member, an index, a value that is not JSON) are left to the embedded attribute of the library, which also
// creates the errors.
type path struct {
	interpreter.InterpretableAttribute
	root  root
	name  string
	index int // the index of a variable
	steps []pathStep
	other bool // there are qualifiers that are not names
	tests bool // the last step only tests whether the member exists
}

type pathStep struct {
	name     string
	optional bool
}

// root is the kind of name with which a path begins.
type root uint8

const (
	rootOther root = iota // a name that the library resolves, such as a variable of a macro
	rootObject
	rootOldObject
	rootVariable
)

// newPath returns the path for an attribute that consists of a name.
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
			if in.declared.Kind != env.Deleting {
				p.root = rootOldObject
			}
		}
	}
	return p
}

// Attr returns the path itself, so that decorators recognize it.
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

// isTest reports whether the qualifier belongs to has(). Its type has no exported name.
func isTest(q interpreter.Qualifier) bool {
	return reflect.TypeOf(q).String() == "*interpreter.testOnlyQualifier"
}

// IsOptional implements the library's interface.
func (p *path) IsOptional() bool { return p.InterpretableAttribute.IsOptional() }

// found is the result of following a path.
type found uint8

const (
	elsewhere found = iota // the library must evaluate the path
	absent                 // an optional member is missing
	present
)

// find follows the path. optional reports whether any member on it is optional, which makes the value optional.
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
		case *values.Map:
			m = *x
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

// Exec implements the library's interface.
func (p *path) Exec(frame *interpreter.ExecutionFrame) ref.Val { return p.Eval(frame) }

// Eval implements the library's interface.
func (p *path) Eval(vars interpreter.Activation) ref.Val {
	v, optional, f := p.find(vars)
	switch {
	case f == elsewhere:
		return p.InterpretableAttribute.Eval(vars)
	case f == absent:
		return types.OptionalNone
	case optional:
		return types.OptionalOf(values.JSON.NativeToValue(v))
	}
	if ready, ok := v.(ref.Val); ok {
		return ready
	}
	return p.Adapter().NativeToValue(v)
}

// Resolve implements the library's interface. The branches of a conditional are resolved by themselves, also below has(): `has((c ? a : b).x)` asks
// both whether they have x.
func (p *path) Resolve(vars interpreter.Activation) (any, error) {
	if v, optional, f := p.find(vars); f == present && !optional && !types.IsError(asValue(v)) {
		if p.tests {
			return true, nil
		}
		return v, nil
	}
	return p.InterpretableAttribute.Resolve(vars)
}

func asValue(v any) ref.Val {
	out, _ := v.(ref.Val)
	return out
}

// test is a call of has() with a path.
type test struct {
	interpreter.InterpretableAttribute
	of *path
}

// Exec implements the library's interface.
func (t *test) Exec(frame *interpreter.ExecutionFrame) ref.Val { return t.Eval(frame) }

// Eval implements the library's interface.
func (t *test) Eval(vars interpreter.Activation) ref.Val {
	if _, optional, f := t.of.find(vars); !optional && f != elsewhere {
		return types.Bool(f == present)
	}
	return t.InterpretableAttribute.Eval(vars)
}
