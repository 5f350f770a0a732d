package celenv

import (
	"ephor.invalid/ephor/internal/value"
)

// Reads returns which parts of object, oldObject, request, namespaceObject, params and authorizer the expressions compiled so
// far read. The members of the result are the documents that are read. Evaluations of an object with only these parts have
// the same results.
func (c *Compiler) Reads() *value.Fields { return c.reads.Fields() }

// Calls reports whether any expression compiled so far calls a function of the library, such as http.
func (c *Compiler) Calls(library string) bool { return c.reads.Calls(library) }

// Asks reports whether any expression compiled so far queries the World, such as resources, services or registries.
func (c *Compiler) Asks() bool { return c.reads.Asks() }

// Objects returns the objects that the expressions compiled so far name. Only generating policies have any.
func (c *Compiler) Objects() []NamedObject { return c.objects.list }
