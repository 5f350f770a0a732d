package jmespath

import (
	"ephor.invalid/ephor/internal/value"
)

// eval evaluates one node on a value. Values belong to the input: they are shared and never changed.
type eval func(env *Env, v any) (any, error)

// Expr is a compiled expression. It is immutable and safe for concurrent use.
type Expr struct {
	src     string
	quoting Quoting
	run     eval
	paths   [][]string
}

// Compile parses an expression and compiles it to closures. The error is a *SyntaxError. An unknown function or a wrong number of arguments
// is not an error of Compile but of an evaluation that reaches it.
func Compile(src string) (*Expr, error) { return CompileQuoting(src, Quoting{}) }

// MustCompile is Compile for expressions in Go code; it panics on a syntax error.
func MustCompile(src string) *Expr {
	e, err := Compile(src)
	if err != nil {
		panic(err)
	}
	return e
}

// String returns the text of the expression.
func (e *Expr) String() string { return e.src }

// searchSteps is the cost of an evaluation beside its parts.
const searchSteps = 2

// Search evaluates the expression on root, any JSON value or a Root. If the result is a number, or a list with numbers in it, they become
// float64. Objects, and lists of lists, are returned as they are in the input, including int64, so that nothing is copied and no large
// number is rounded on its way into a patch. The result is read-only. A missing key is an *UnknownKeyError; a function that needs something
// that env.World does not offer returns an error wrapping world.ErrUnavailable; an exceeded limit, one wrapping budget.ErrExhausted.
func (e *Expr) Search(env *Env, root any) (any, error) {
	if env == nil {
		env = &Env{}
	}
	err := env.step(searchSteps)
	var v any
	if err == nil {
		v, err = e.run(env, root)
	}
	if err == nil {
		v, err = whole(v)
	}
	if err != nil {
		env.Trace.Query(e.src, nil, err)
		return nil, err
	}
	v = topFloats(v)
	env.Trace.Query(e.src, v, nil)
	return v, nil
}

// whole replaces a Root, whose fields are looked up one by one, by the whole document.
func whole(v any) (any, error) {
	if r, ok := v.(Root); ok {
		return r.Value()
	}
	return v, nil
}

func compile(n *node) eval {
	switch n.kind {
	case nCurrent:
		return func(_ *Env, v any) (any, error) { return v, nil }
	case nField:
		return compileField(n.name)
	case nLiteral:
		literal := n.literal
		return func(*Env, any) (any, error) { return literal, nil }
	case nSub:
		return compileSub(n)
	case nPipe:
		left, right := tolerant(compile(n.left)), tolerant(compile(n.right))
		return func(env *Env, v any) (any, error) {
			v, err := left(env, v)
			if err != nil {
				return nil, err
			}
			return right(env, v)
		}
	case nIndex:
		return compileIndex(n)
	case nSlice:
		return compileSlice(n)
	case nFlatten:
		return compileFlatten(n)
	case nProject:
		return compileProject(n)
	case nValues:
		return compileValues(n)
	case nFilter:
		return compileFilter(n)
	case nList:
		return compileList(n)
	case nHash:
		return compileHash(n)
	case nCall:
		return compileCall(n)
	case nExpref:
		ref := &expref{run: compile(n.left)}
		return func(*Env, any) (any, error) { return ref, nil }
	case nOr, nAnd:
		left, right, or := tolerant(compile(n.left)), tolerant(compile(n.right)), n.kind == nOr
		return func(env *Env, v any) (any, error) {
			if err := env.step(1); err != nil {
				return nil, err
			}
			l, err := left(env, v)
			if err != nil || isFalse(l) != or {
				return l, err
			}
			return right(env, v)
		}
	case nNot:
		operand := compile(n.left)
		return func(env *Env, v any) (any, error) {
			v, err := operand(env, v)
			if err != nil {
				return nil, err
			}
			return isFalse(v), nil
		}
	}
	return compileComparison(n)
}

// expref is the value of &expression, an argument of sort_by and similar functions.
type expref struct{ run eval }

// on evaluates the expression on one element; a missing key gives null.
func (r *expref) on(env *Env, v any) (any, error) {
	if err := env.step(1); err != nil {
		return nil, err
	}
	out, err := r.run(env, v)
	if err != nil && isUnknownKey(err) {
		return nil, nil
	}
	return out, err
}

// tolerant turns a missing key into null.
func tolerant(e eval) eval {
	return func(env *Env, v any) (any, error) {
		out, err := e(env, v)
		if err != nil && isUnknownKey(err) {
			return nil, nil
		}
		return out, err
	}
}

// lenient turns a missing key, and every other mismatch of the data, into null.
func lenient(e eval) eval {
	return func(env *Env, v any) (any, error) {
		out, err := e(env, v)
		if err != nil && misfits(err) {
			return nil, nil
		}
		return out, err
	}
}

func compileField(name string) eval {
	missing := &UnknownKeyError{Key: name} // created once: missing keys are common, and mostly tolerated
	return func(_ *Env, v any) (any, error) {
		return field(v, name, missing)
	}
}

// field looks up a key. Only an object can lack a key: a field of any other value is null.
func field(v any, name string, missing *UnknownKeyError) (any, error) {
	switch m := v.(type) {
	case map[string]any:
		if out, ok := m[name]; ok {
			return out, nil
		}
		return nil, missing
	case Root:
		out, ok, err := m.Field(name)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, missing
		}
		return out, nil
	}
	return nil, nil
}

// compileSub compiles a.b; a chain of fields such as request.object.spec becomes one loop.
func compileSub(n *node) eval {
	if n.left.kind == nCurrent {
		return compile(n.right)
	}
	if names := chain(n); len(names) > 0 {
		missing := make([]*UnknownKeyError, len(names))
		for i, name := range names {
			missing[i] = &UnknownKeyError{Key: name}
		}
		return func(_ *Env, v any) (any, error) {
			for i, name := range names {
				m, ok := v.(map[string]any)
				if !ok {
					var err error
					if v, err = field(v, name, missing[i]); err != nil || v == nil {
						return nil, err
					}
					continue
				}
				if v, ok = m[name]; !ok {
					return nil, missing[i]
				}
			}
			return v, nil
		}
	}
	left, right := compile(n.left), compile(n.right)
	return func(env *Env, v any) (any, error) {
		v, err := left(env, v)
		if err != nil {
			return nil, err
		}
		return right(env, v)
	}
}

// chain returns the names of a chain of fields, nil for any other node.
func chain(n *node) []string {
	switch {
	case n.kind == nField:
		return []string{n.name}
	case n.kind == nSub && n.right.kind == nField:
		if n.left.kind == nCurrent {
			return []string{n.right.name}
		}
		if left := chain(n.left); left != nil {
			return append(left, n.right.name)
		}
	}
	return nil
}

func compileList(n *node) eval {
	items := compileAll(n.items)
	return func(env *Env, v any) (any, error) {
		if v == nil {
			return nil, nil
		}
		if err := env.items(len(items)); err != nil {
			return nil, err
		}
		out := make([]any, len(items))
		for i, item := range items {
			var err error
			if out[i], err = item(env, v); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

func compileHash(n *node) eval {
	keys, items := n.keys, compileAll(n.items)
	return func(env *Env, v any) (any, error) {
		if v == nil {
			return nil, nil
		}
		if err := env.items(16 + 2*len(keys)); err != nil { // the size of a small map
			return nil, err
		}
		out := make(map[string]any, len(keys))
		for i, item := range items {
			r, err := item(env, v)
			if err != nil {
				return nil, err
			}
			out[keys[i]] = r
		}
		return out, nil
	}
}

// compileAll compiles operands whose missing keys become null and whose result is stored, so it must not be a Root.
func compileAll(nodes []*node) []eval {
	out := make([]eval, len(nodes))
	for i, n := range nodes {
		e := compile(n)
		out[i] = func(env *Env, v any) (any, error) {
			r, err := e(env, v)
			if err != nil {
				if isUnknownKey(err) {
					return nil, nil
				}
				return nil, err
			}
			return whole(r)
		}
	}
	return out
}

func compileComparison(n *node) eval {
	operands := compileAll([]*node{n.left, n.right})
	left, right, op := operands[0], operands[1], n.operator
	return func(env *Env, v any) (any, error) {
		l, err := left(env, v)
		if err != nil {
			return nil, err
		}
		r, err := right(env, v)
		if err != nil {
			return nil, err
		}
		if op == tEQ || op == tNE {
			equal, err := env.Meter.Equal(l, r)
			return equal == (op == tEQ), err
		}
		if err := env.step(1); err != nil {
			return nil, err
		}
		a, ok := value.Float(l)
		b, ok2 := value.Float(r)
		if !ok || !ok2 {
			return nil, nil // only numbers have an order
		}
		switch op {
		case tLT:
			return a < b, nil
		case tLTE:
			return a <= b, nil
		case tGT:
			return a > b, nil
		}
		return a >= b, nil
	}
}

// isFalse reports whether a value counts as false: false, null, and the empty string, list and object. All numbers count as true.
func isFalse(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case bool:
		return !x
	case string:
		return x == ""
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}
