package value

import (
	"slices"
	"strings"
)

// Fields holds the parts of a document that are read: a tree of members and items. The zero Fields means that its place is read, but
// nothing below it. One goroutine builds a Fields; afterwards it is safe for concurrent use.
type Fields struct {
	whole   bool     // everything below is read
	names   []string // of the members that are read
	members []*Fields
	items   *Fields // of a list
	// rest: all members except the named ones and except are read, too, each as a whole.
	rest   bool
	except string
	// every: the names of all members of an object are kept.
	every bool
}

// ReadAll marks everything below as read.
func (f *Fields) ReadAll() { f.whole = true }

// ReadAllBut marks everything below as read, except the member with that name, unless Member adds it.
func (f *Fields) ReadAllBut(name string) { f.rest, f.except = true, name }

// ReadNames marks the names of all members as read, if the place is an object: the decoded object then has as many as the document. Member
// defines which parts of a member are read; others are read as a whole.
func (f *Fields) ReadNames() { f.every = true }

// All reports whether everything below is read.
func (f *Fields) All() bool { return f.whole }

// maxMembers bounds the named members of a place, since the search is linear.
const maxMembers = 64

// Member returns the member with that name and marks it as read. A place with very many named members is read as a whole.
func (f *Fields) Member(name string) *Fields {
	if m := f.Get(name); m != nil {
		return m
	}
	m := &Fields{}
	if len(f.names) == maxMembers {
		f.ReadAll()
		return m
	}
	if f.rest && name != f.except {
		m.ReadAll() // it is read as a whole already
	}
	f.names, f.members = append(f.names, name), append(f.members, m)
	return m
}

// Get returns the member with that name, nil if Member was not called for it.
func (f *Fields) Get(name string) *Fields {
	if i := slices.Index(f.names, name); i >= 0 {
		return f.members[i]
	}
	return nil
}

// Names returns the members for which Member was called, in that order.
func (f *Fields) Names() []string { return slices.Clone(f.names) }

// Remove removes the member with that name and returns it; nil if there is none.
func (f *Fields) Remove(name string) *Fields {
	i := slices.Index(f.names, name)
	if i < 0 {
		return nil
	}
	m := f.members[i]
	f.names, f.members = slices.Delete(f.names, i, i+1), slices.Delete(f.members, i, i+1)
	return m
}

// Items returns the Fields of every item of a list.
func (f *Fields) Items() *Fields {
	if f.items == nil {
		f.items = &Fields{}
	}
	return f.items
}

// ItemsRead returns the Fields of the items of a list; nil if there are none.
func (f *Fields) ItemsRead() *Fields { return f.items }

// Reads reports whether the value at the path is read, or a part of it. The token * stands for every item of a list or member of an object.
// The nil Fields reads everything.
func (f *Fields) Reads(path ...string) bool {
	if f == nil || f.whole || len(path) == 0 {
		return true
	}
	if m := f.Get(path[0]); m != nil {
		return m.Reads(path[1:]...)
	}
	if path[0] != "*" {
		return f.rest && path[0] != f.except
	}
	if f.rest || f.items != nil && f.items.Reads(path[1:]...) {
		return true
	}
	return slices.ContainsFunc(f.members, func(m *Fields) bool { return m.Reads(path[1:]...) })
}

// String returns the tree for people: {kind metadata{name labels{…}} spec{containers[{image}]}}, with … for everything below (after names:
// for all other members) and -name for an omitted member.
func (f *Fields) String() string {
	switch {
	case f == nil, f.whole:
		return "{…}"
	case f.rest && f.Get(f.except) == nil:
		return "{… -" + f.except + "}"
	case f.rest:
		return "{…}"
	}
	var b strings.Builder
	order := slices.Sorted(slices.Values(f.names))
	for i, name := range order {
		b.WriteString([]string{"{", " "}[min(i, 1)] + name + f.Get(name).String())
	}
	if len(order) > 0 && f.every {
		b.WriteString(" …")
	}
	if len(order) > 0 {
		b.WriteByte('}')
	}
	if f.items != nil {
		b.WriteString("[" + f.items.String() + "]")
	}
	return b.String()
}

// Merge adds the parts of o, and shares nothing with it.
func (f *Fields) Merge(o *Fields) {
	f.whole = f.whole || o.whole || o.rest && !(f.rest && f.except == o.except)
	f.every = f.every || o.every
	for i, name := range o.names {
		f.Member(name).Merge(o.members[i])
	}
	if o.items != nil {
		f.Items().Merge(o.items)
	}
}

// member returns the Fields of a member: nil for all of it; omitted means that it is not read at all. A place without named members is read
// as a whole: either only its presence matters, or it was expected to be a list.
func (f *Fields) member(name string) (below *Fields, omitted bool) {
	switch {
	case f == nil, f.whole:
		return nil, false
	case len(f.names) == 0 && !f.rest:
		return nil, false
	}
	if m := f.Get(name); m != nil {
		return m, false
	}
	return nil, !f.every && (!f.rest || name == f.except)
}

// item returns the Fields of the items of a list; nil for all of them.
func (f *Fields) item() *Fields {
	if f == nil || f.whole {
		return nil
	}
	return f.items
}
