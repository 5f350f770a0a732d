package value

import "slices"

// Part is the source of a value: places in a document, or a list or an object built from such places.
type Part struct {
	at     []*Fields
	items  *Part            // of a list that an expression built
	fields map[string]*Part // of an object that an expression built
	size   int              // the number of all parts in it; 0 for a single one
}

// PartOf returns the Part for the places.
func PartOf(at ...*Fields) *Part { return &Part{at: at} }

// Read marks the value as read as a whole.
func (p *Part) Read() {
	if p == nil {
		return
	}
	for _, f := range p.at {
		f.ReadAll()
	}
	p.items.Read()
	for _, f := range p.fields {
		f.Read()
	}
}

// ReadNames marks the value's length, or the names of all its members, as read.
func (p *Part) ReadNames() {
	if p == nil {
		return
	}
	for _, f := range p.at {
		f.ReadNames()
	}
}

// ReadFields marks the fields in of as read.
func (p *Part) ReadFields(of *Fields) {
	if p == nil || of == nil {
		return
	}
	for _, f := range p.at {
		f.Merge(of)
	}
	if of.All() {
		p.Read()
		return
	}
	p.items.ReadFields(of.ItemsRead())
	for name, f := range p.fields {
		f.ReadFields(of.Get(name))
	}
}

// Elements returns the elements of a foreach over the value: the items of a list, or the value itself if it is not a list.
func (p *Part) Elements() *Part { return JoinParts(p, new(Flow).Items(p)) }

// JoinParts returns the source of a value that is one of several.
func JoinParts(parts ...*Part) *Part {
	out := &Part{}
	for _, p := range parts {
		if p == nil {
			continue
		}
		for _, f := range p.at {
			if !slices.Contains(out.at, f) {
				out.at = append(out.at, f)
			}
		}
		if p.items != nil {
			out.items = JoinParts(out.items, p.items)
		}
		for name, f := range p.fields {
			if out.fields == nil {
				out.fields = map[string]*Part{}
			}
			out.fields[name] = JoinParts(out.fields[name], f)
		}
		out.size += 1 + p.size
	}
	return out
}

// Flow follows the parts of a document through one expression. The zero Flow is ready for use.
type Flow struct{ places int }

// maxPlaces bounds the places of an expression: [a, b][].[a, b][] doubles them with each step.
const maxPlaces = 512

// Lost reports that the expression has too many places to follow, so that it counts as reading everything.
func (f *Flow) Lost() bool { return f.places > maxPlaces }

// Lose stops following the expression.
func (f *Flow) Lose() { f.places = maxPlaces + 1 }

// count reports whether there may be n more places.
func (f *Flow) count(n int) bool {
	f.places += n
	return !f.Lost()
}

// Made returns p, which was built from the parts: {a: @, b: @} | {a: @, b: @} doubles its parts with each step, too.
func (f *Flow) Made(p *Part, of ...*Part) *Part {
	for _, part := range of {
		p.size += 1 + part.size
	}
	if p.size > maxPlaces {
		f.Lose()
		return &Part{}
	}
	return p
}

// Join is JoinParts within the bounds of the Flow.
func (f *Flow) Join(parts ...*Part) *Part { return f.Made(JoinParts(parts...)) }

// Member returns the member with that name.
func (f *Flow) Member(p *Part, name string) *Part {
	out := &Part{}
	if p == nil || !f.count(1+len(p.at)) {
		return out
	}
	for _, d := range p.at {
		out.at = append(out.at, d.Member(name))
	}
	return JoinParts(out, p.fields[name])
}

// Items returns the Part of the items of a list.
func (f *Flow) Items(p *Part) *Part {
	out := &Part{}
	if p == nil || !f.count(1+len(p.at)) {
		return out
	}
	for _, d := range p.at {
		out.at = append(out.at, d.Items())
	}
	return JoinParts(out, p.items)
}

// List returns a list with items of the parts.
func (f *Flow) List(items ...*Part) *Part {
	all := f.Join(items...)
	return f.Made(&Part{items: all}, all)
}

// Object returns an object with members of the parts.
func (f *Flow) Object(members map[string]*Part) *Part {
	out := &Part{fields: members}
	for _, m := range members {
		if out = f.Made(out, m); f.Lost() {
			return out
		}
	}
	return out
}
