package value

import "slices"

// Part is what a value was taken from: places of a document, or a list or an object made of such.
type Part struct {
	at     []*Fields
	items  *Part            // of a list that was made
	fields map[string]*Part // of an object that was made
	size   int              // how many parts these are with all that they are made of; 0 for one
}

// PartOf returns the Part that stands for the places.
func PartOf(at ...*Fields) *Part { return &Part{at: at} }

// Read says that the value is read as a whole.
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

// ReadNames says that the value's length is read, or of an object the names of all its members.
func (p *Part) ReadNames() {
	if p == nil {
		return
	}
	for _, f := range p.at {
		f.ReadNames()
	}
}

// Take says that of the value is read what of says.
func (p *Part) Take(of *Fields) {
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
	p.items.Take(of.ItemsRead())
	for name, f := range p.fields {
		f.Take(of.Get(name))
	}
}

// Elements returns what a foreach over the value goes through: the items of a list, or the value itself when it is none.
func (p *Part) Elements() *Part { return JoinParts(p, new(Flow).Items(p)) }

// JoinParts returns what a value was taken from that is one of several.
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

// Flow follows the parts of a document through one expression. The zero Flow is ready to use.
type Flow struct{ places int }

// maxPlaces bounds what an expression may lead to: [a, b][].[a, b][] doubles it with each step.
const maxPlaces = 512

// Lost reports that the expression leads to too many places to follow: it is to be taken as one that reads everything.
func (f *Flow) Lost() bool { return f.places > maxPlaces }

// Lose gives up following the expression.
func (f *Flow) Lose() { f.places = maxPlaces + 1 }

// count reports whether there may be n more places.
func (f *Flow) count(n int) bool {
	f.places += n
	return !f.Lost()
}

// Made is p, which was made of the parts: {a: @, b: @} | {a: @, b: @} doubles what it is made of with each step, too.
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

// Member returns the member of that name.
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

// Items is each of the items of a list.
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

// List returns a list whose items are made of the parts.
func (f *Flow) List(items ...*Part) *Part {
	all := f.Join(items...)
	return f.Made(&Part{items: all}, all)
}

// Object returns an object whose members are made of the parts.
func (f *Flow) Object(members map[string]*Part) *Part {
	out := &Part{fields: members}
	for _, m := range members {
		if out = f.Made(out, m); f.Lost() {
			return out
		}
	}
	return out
}
