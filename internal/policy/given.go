package policy

// Given holds values that replace variables of a rule. The command line reads them from values files. A Given is immutable.
type Given struct {
	// Names holds values by the first name of the variable: {"cm": {"data": {…}}} for cm.data. A value replaces the context entry of
	// its name, which is then not loaded. A value for a built-in variable (request, images) is merged into it, key by key.
	Names map[string]any
	// Elements returns the values for one element of a foreach by its index; nil for none. They take precedence over Names. A value for
	// element is merged with the element.
	Elements func(index int) map[string]any
}

// Value returns the given value for the name, if there is one.
func (g *Given) Value(name string) (any, bool) {
	if g == nil {
		return nil, false
	}
	v, ok := g.Names[name]
	return v, ok
}
