package loader

import (
	"slices"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/scope"
)

// Chain is the compiled context of a rule or of a foreach entry. The nil Chain is empty.
type Chain struct {
	entries []contextEntry
	reads   scope.Reads
}

type contextEntry struct {
	name    string
	load    func(before *scope.Scope) (any, error)
	made    *scope.Made // nil for data
	reads   scope.Reads
	dynamic string // a query whose variables are only known at run time
}

// Apply returns a scope in which the entries are registered, in order.
func (c *Chain) Apply(s *scope.Scope) *scope.Scope {
	if c == nil {
		return s
	}
	for i := range c.entries {
		s = s.WithLazyMade(c.entries[i].name, c.entries[i].made, c.entries[i].load)
	}
	return s
}

// Late returns the entries that read one of the names, directly or through other entries, and the later entries of their names; nil if there
// are none. A part of a rule that defines these names applies them once more: an entry is loaded where it is used first, and sees them.
func (c *Chain) Late(names ...string) *Chain {
	if c == nil {
		return nil
	}
	var out *Chain
	for _, e := range c.entries {
		if !slices.Contains(names, e.name) && !slices.ContainsFunc(names, e.mentions) {
			continue
		}
		if out == nil {
			out = &Chain{}
		}
		names = append(names[:len(names):len(names)], e.name)
		out.entries = append(out.entries, e)
		out.reads.AddReads(e.reads)
	}
	return out
}

// mentions reports whether the entry reads the variable.
func (e *contextEntry) mentions(name string) bool {
	return slices.Contains(e.reads.Names(), name) || mentions(e.dynamic, name)
}

// mentions reports whether a name stands in a text as a word that is not a field of something else.
func mentions(text, name string) bool {
	for rest := text; ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		before, after := rest[:i], rest[i+len(name):]
		if (before == "" || !strings.ContainsAny(before[len(before)-1:], wordBytes+".")) && (after == "" || !strings.ContainsAny(after[:1], wordBytes)) {
			return true
		}
		rest = after
	}
}

const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// Reading returns the names of the entries that read what matters, directly or through other entries.
func (c *Chain) Reading(matters func(*scope.Reads) bool) (names []string) {
	if c == nil {
		return nil
	}
	for i := range c.entries {
		if e := &c.entries[i]; matters(&e.reads) || slices.ContainsFunc(names, e.mentions) {
			names = append(names, e.name)
		}
	}
	return names
}

// Reads returns the variables that loading the entries may read, and the Needs that follow from them. An entry that reads the world
// sets Needs.Lookups.
func (c *Chain) Reads() scope.Reads {
	if c == nil {
		return scope.Reads{}
	}
	return c.reads
}

// Names returns the names that the chain defines.
func (c *Chain) Names() []string {
	if c == nil {
		return nil
	}
	var out []string
	for _, e := range c.entries {
		out = append(out, e.name)
	}
	return out
}

// input is the information that a Loader needs in addition to the entry.
type input struct {
	policyNamespace string // empty for cluster-scoped policies
	allowance       *compilecost.Allowance
	path            string // of the entry's own field, such as spec.rules[0].context[1].configMap
}

// compiled is the result of a Loader for one entry.
type compiled struct {
	load    func(before *scope.Scope) (any, error)
	reads   scope.Reads
	dynamic string // a query whose variables are only known at run time
	diags   diag.List

	allowance *compilecost.Allowance
}

// reserved are the names that every rule already has; an entry may not use them. `image` is allowed, since only image verification
// defines it.
var reserved = []string{
	"request", "element", "elementIndex", "images", "serviceAccountName", "serviceAccountNamespace", "target", "@",
}

// Compile compiles the context entries at the field path. policyNamespace is the namespace of a namespaced policy, empty for a
// cluster-scoped one. It returns all mistakes as diagnostics. The Chain is always usable, and an entry with a mistake fails when it is
// used.
// The allowance is charged for what the expressions cost to compile; nil for no bound of all together.
func Compile(entries []kyvernov1.ContextEntry, policyNamespace, path string, a *compilecost.Allowance) (*Chain, diag.List) {
	if len(entries) == 0 {
		return nil, nil
	}
	c := &Chain{}
	var diags diag.List
	for i := range entries {
		e := &entries[i]
		at := path + "[" + strconv.Itoa(i) + "]"
		got := compileEntry(e, policyNamespace, at, a)
		diags.Add(got.diags...)
		c.reads.AddReads(got.reads)
		c.entries = append(c.entries, contextEntry{name: e.Name, load: got.load, made: got.reads.Made(), reads: got.reads, dynamic: got.dynamic})
	}
	return c, diags
}

func compileEntry(e *kyvernov1.ContextEntry, policyNamespace, path string, a *compilecost.Allowance) compiled {
	var diags diag.List
	if e.Name == "" {
		diags.Errorf(path+".name", "a name is required for context entries")
		diags.Hint("add a name, by which expressions read the entry: {{ name }}")
	} else if slices.Contains(reserved, e.Name) {
		diags.Errorf(path+".name", "entry name %s is invalid as it conflicts with a pre-defined variable %s", e.Name, e.Name)
		diags.Hint("choose another name for the entry")
	}
	var owners []Loader
	for _, l := range loaders {
		if l.Owns(e) {
			owners = append(owners, l)
		}
	}
	if len(owners) != 1 {
		diags.Errorf(path, "exactly one of configMap or apiCall or imageRegistry or variable is required for context entries")
		diags.Hint("write one entry for each of them, with a name of its own; globalReference may stand there too")
		return broken(diags)
	}
	c := owners[0].compile(e, input{policyNamespace: policyNamespace, path: path + "." + owners[0].Field, allowance: a})
	c.diags = append(diags, c.diags...)
	switch {
	case c.load == nil || diags.HasErrors():
		c.load = broken(c.diags).load
	case c.reads.Needs.Lookups: // variables are charged when they are computed
		c.load = limited(c.load)
	}
	return c
}

// limited charges the budget for the data that an entry loads.
func limited(load func(*scope.Scope) (any, error)) func(*scope.Scope) (any, error) {
	return func(before *scope.Scope) (any, error) {
		v, err := load(before)
		if err == nil {
			err = before.Hold(v)
		}
		if err != nil {
			return nil, err
		}
		return v, nil
	}
}

// broken returns an entry that cannot be loaded; using it is an error with the first diagnostic's text.
func broken(diags diag.List) compiled {
	err := brokenEntry{diags.Errors()[0]}
	return compiled{diags: diags, load: func(*scope.Scope) (any, error) { return nil, err }}
}

type brokenEntry struct{ d diag.Diagnostic }

func (b brokenEntry) Error() string { return b.d.Summary }
