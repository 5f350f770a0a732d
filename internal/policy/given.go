package policy

// Given holds values that replace variables of a rule: the command line reads them from values files. A Given is immutable.
type Given struct {
	// Names hold values by the first name of the variable: {"cm": {"data": {…}}} for cm.data. A value wins over a
	// context entry of its name, which is not loaded then; where the engine itself knows the name (request, images) the
	// two are merged, key by key.
	Names map[string]any
	// Elements gives values for one element of a foreach, by its position; they win over Names. A value for element is
	// merged with the element. Nil when there are none.
	Elements func(index int) map[string]any
}

// Value returns what was given for the name, if anything was.
func (g *Given) Value(name string) (any, bool) {
	if g == nil {
		return nil, false
	}
	v, ok := g.Names[name]
	return v, ok
}
