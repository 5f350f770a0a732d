package scope

import (
	"fmt"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Scope holds the variables of a rule as a persistent chain of names. Each context entry and each foreach element is a child of the
// previous scope, so a lazily loaded entry sees only the entries before it, and dropping a child drops all that the element defined. A
// Scope belongs to one goroutine.
type Scope struct {
	*policy.Call

	given  *policy.Given // values of the user that replace others; nil for none
	parent *Scope
	name   string
	val    any                              // the error if it could not be loaded
	load   func(parent *Scope) (any, error) // nil once loaded
	held   int                              // bytes that entries defined after this one loaded from outside
	made   *Made
	author verdict
	broken bool // val is an error
}

// Made lists the variables from which a value is computed, together with the policy author's text. A value without it is data.
type Made struct{ Of []string }

// verdict records whether a value was written by the author, once that is known.
type verdict uint8

const (
	undecided verdict = iota
	authored
	data
)

// DefaultContextSize is the default limit in bytes of the data that the context entries of one rule load.
const DefaultContextSize = 2 << 20

// Loaded data count for the policy's budget: reading two bytes takes about one step. At most maxWeighed bytes count.
const (
	bytesPerStep = 2
	maxWeighed   = 64 << 20
)

// outermost is a Scope together with its Call.
type outermost struct {
	Scope
	call policy.Call
}

// New returns the outermost scope of a call, with the request and the service account names. It keeps a copy of the call.
func New(c *policy.Call) *Scope {
	s := &outermost{call: *c}
	s.Call = &s.call
	if c.Request != nil && c.Request.Given != nil {
		s.given = c.Request.Given(c.Program, c.Rule)
	}
	return &s.Scope
}

// QueryEnv returns the environment of the Call for queries and templates.
func (s *Scope) QueryEnv() *jmespath.Env { return (*jmespath.Env)(s.Env) }

// With returns a child scope in which name has the value v.
func (s *Scope) With(name string, v any) *Scope {
	return &Scope{Call: s.Call, given: s.given, parent: s, name: name, val: v}
}

// WithLazy returns a child scope in which name is loaded on first use, at most once. load receives the scope before this name, so that an
// entry sees only earlier entries. If the user gave a value for the name, nothing is loaded.
func (s *Scope) WithLazy(name string, load func(before *Scope) (any, error)) *Scope {
	if v, ok := s.given.Value(name); ok {
		return s.With(name, v)
	}
	return &Scope{Call: s.Call, given: s.given, parent: s, name: name, load: load}
}

// WithMade is With for a value that is computed only from the variables in made and the author's text.
func (s *Scope) WithMade(name string, v any, made *Made) *Scope {
	out := s.With(name, v)
	out.made = made
	return out
}

// WithLazyMade is WithLazy for a value that is computed only from the variables in made and the author's text.
func (s *Scope) WithLazyMade(name string, made *Made, load func(before *Scope) (any, error)) *Scope {
	out := s.WithLazy(name, load)
	if out.load != nil { // nil if the user gave a value for it
		out.made = made
	}
	return out
}

// Authored reports whether the policy's author wrote the values of all the names, literally or through other such values. Values from the
// request, the cluster or elsewhere are data and are never evaluated as expressions, except in a policy for which the operator allows that
// (Conf.Expand).
func (s *Scope) Authored(names []string) bool {
	if s.expands() {
		return true
	}
	for _, name := range names {
		if !s.wrote(name) {
			return false
		}
	}
	return true
}

func (s *Scope) expands() bool {
	return s.Request != nil && s.Program != nil && s.Program.Namespace == "" && s.Request.Conf.Expand[s.Program.Name]
}

func (s *Scope) wrote(name string) bool {
	for n := s; n != nil; n = n.parent {
		if n.name != name || n.parent == nil {
			continue
		}
		if n.author == undecided {
			n.author = data
			if n.made != nil && n.parent.Authored(n.made.Of) {
				n.author = authored
			}
		}
		return n.author == authored
	}
	return false
}

// Field looks up a name at the root. ok is false if it does not exist; err is the reason why an existing entry could not be loaded.
func (s *Scope) Field(name string) (v any, ok bool, err error) {
	for n := s; n != nil; n = n.parent {
		if n.parent == nil {
			return n.builtin(name, s.given)
		}
		if n.name == name {
			v, err = n.get()
			return v, err == nil, err
		}
	}
	return nil, false, nil
}

func (s *Scope) get() (any, error) {
	if s.load != nil {
		load := s.load
		s.load = nil
		v, err := load(s.parent)
		if s.val = v; err != nil {
			s.val, s.broken = err, true
		}
		if s.Env != nil {
			s.Env.Trace.Entry(s.name, v, err)
		}
	}
	if s.broken {
		return nil, s.val.(error)
	}
	return s.val, nil
}

// Hold counts the data of a context entry that is defined after s, together with the data of earlier entries. Values that expressions
// compute from data are metered separately. Entries of a foreach element count only for that element.
func (s *Scope) Hold(v any) error {
	limit := DefaultContextSize
	if s.Env != nil {
		if err := s.Env.Meter.Beside(int64(value.Size(v, maxWeighed) / bytesPerStep)); err != nil {
			return err
		}
	}
	if s.Request != nil && s.Request.Conf.MaxContextSize != 0 {
		if limit = s.Request.Conf.MaxContextSize; limit < 0 {
			return nil
		}
	}
	total := 0
	for n := s; n != nil; n = n.parent {
		total += n.held
	}
	size := value.Size(v, limit-total)
	s.held += size
	if total += size; total > limit {
		return fmt.Errorf("context size limit exceeded: %d bytes exceeds limit of %d bytes", total, limit)
	}
	return nil
}

// builtin returns the built-in variable of that name, with the values that the user gave.
func (s *Scope) builtin(name string, given *policy.Given) (any, bool, error) {
	v, ok, err := s.known(name)
	over, also := given.Value(name)
	if !also {
		return v, ok, err
	}
	if v, err = whole(v); err != nil {
		return nil, false, err
	}
	return value.Merge(v, over), true, nil
}

func (s *Scope) known(name string) (any, bool, error) {
	if s.Request == nil {
		return nil, false, nil
	}
	switch name {
	case "request":
		v, err := requestVariable(s.Call)
		return v, err == nil, err
	case "serviceAccountName":
		_, n := s.Request.ServiceAccount()
		return n, s.Request.User != nil, nil
	case "serviceAccountNamespace":
		ns, _ := s.Request.ServiceAccount()
		return ns, s.Request.User != nil, nil
	case "images":
		images, err := s.Request.Images()
		return images, err == nil, err
	}
	return nil, false, nil
}

// Unforeseen is called before the evaluation of queries that were found inside values.
func (s *Scope) Unforeseen() {
	if s.Request != nil {
		s.Request.NoteUnforeseen()
	}
}

// Value returns the whole context as one map, for `@` at the root and for functions applied to it. Every entry is loaded.
func (s *Scope) Value() (any, error) {
	out := map[string]any{}
	for n := s; n != nil; n = n.parent {
		if n.parent == nil {
			names := []string{"request", "images", "serviceAccountName", "serviceAccountNamespace"}
			if s.given != nil {
				names = slices.AppendSeq(names, maps.Keys(s.given.Names))
			}
			for _, name := range names {
				v, ok, err := n.builtin(name, s.given)
				if err != nil {
					return nil, err
				}
				if v, err = whole(v); err != nil {
					return nil, err
				}
				if _, shadowed := out[name]; ok && !shadowed {
					out[name] = v
				}
			}
			break
		}
		if _, shadowed := out[n.name]; shadowed {
			continue
		}
		v, err := n.get()
		if err == nil {
			v, err = whole(v)
		}
		if err != nil {
			return nil, err
		}
		out[n.name] = v
	}
	return out, nil
}
