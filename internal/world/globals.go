package world

// Globals reads the data of GlobalContextEntries. It is nil for namespaced policies (S5 in docs/security/threat-model.md). A missing entry,
// or one without data, is an error.
type Globals = Lookup[GlobalRequest, any]

// GlobalRequest is the name of an entry, or entry.projection.
type GlobalRequest string

// Within implements Request.
func (r GlobalRequest) Within(Reach) (Request, error) { return r, nil }

// Title implements Request.
func (r GlobalRequest) Title() string { return string(r) }

// Key implements Request.
func (r GlobalRequest) Key() Key { return keyOf(string(r)) }

// NoGlobalError is the error of Globals for an entry that does not exist.
type NoGlobalError struct{ Message string }

func (e *NoGlobalError) Error() string { return e.Message }

// NoProjectionError is the error for a projection that an entry does not have.
type NoProjectionError struct{ Entry, Projection string }

func (e *NoProjectionError) Error() string {
	return "the GlobalContextEntry " + e.Entry + " has no projection " + e.Projection
}
