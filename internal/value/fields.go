package value

import (
	"slices"
	"strings"
)

// Fields says which parts of a document are read: a tree of members and items. The zero Fields says that its place is
// looked at, but nothing below it. A Fields is made by one goroutine; afterwards it is safe for all of them.
type Fields struct {
	whole   bool     // everything below is read
	names   []string // of the members that are read
	members []*Fields
	items   *Fields // of a list
	// rest: the members that are not named are read, too, each as a whole, but for one.
	rest   bool
	except string
	// every: of an object all members are there, at least by name.
	every bool
}

// ReadAll says that everything below is read.
func (f *Fields) ReadAll() { f.whole = true }

// ReadAllBut says that everything below is read, except for the member of that name, unless Member says otherwise.
func (f *Fields) ReadAllBut(name string) { f.rest, f.except = true, name }

// ReadNames says that the names of all members are read, if the place is an object: as many are there as in the document.
// What is read of a member that is named is for Member to say; others are read as a whole.
func (f *Fields) ReadNames() { f.every = true }

// All reports whether everything below is read.
func (f *Fields) All() bool { return f.whole }

// maxMembers is how many members of a place are distinguished: they are looked for one by one.
const maxMembers = 64

// Member returns the member of that name, which is read from now on. A place of which very many members are read is read whole.
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
		m.ReadAll() // as it was
	}
	f.names, f.members = append(f.names, name), append(f.members, m)
	return m
}

// Get returns the member of that name, nil when it was not asked for by Member.
func (f *Fields) Get(name string) *Fields {
	if i := slices.Index(f.names, name); i >= 0 {
		return f.members[i]
	}
	return nil
}

// Names returns the members that were asked for by Member, in that order.
func (f *Fields) Names() []string { return slices.Clone(f.names) }

// Remove takes the member of that name away and returns it; nil when there is none.
func (f *Fields) Remove(name string) *Fields {
	i := slices.Index(f.names, name)
	if i < 0 {
		return nil
	}
	m := f.members[i]
	f.names, f.members = slices.Delete(f.names, i, i+1), slices.Delete(f.members, i, i+1)
	return m
}

// Items stands for every item of a list.
func (f *Fields) Items() *Fields {
	if f.items == nil {
		f.items = &Fields{}
	}
	return f.items
}

// ItemsRead returns what is read of the items of a list, nil when nothing is said about them.
func (f *Fields) ItemsRead() *Fields { return f.items }

// String writes the tree for people: {kind metadata{name labels{…}} spec{containers[{image}]}}, with … for everything below
// (behind names: for all other members) and -name for what is left out of it.
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

// Merge adds what o reads, and shares nothing with it.
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

// member says what is read of a member: nil for all of it; omitted for nothing, so that it need not be there. A place of
// which no member is named is read whole: either only its presence matters, or it was thought to be a list.
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

// item says what is read of the items of a list: nil for all of them.
func (f *Fields) item() *Fields {
	if f == nil || f.whole {
		return nil
	}
	return f.items
}
