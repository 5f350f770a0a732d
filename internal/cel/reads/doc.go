// Package reads derives from checked CEL expressions what they read: the parts of the documents, the libraries that they call, the objects that
// they name, and whether they have a value for every object.
//
//	var r reads.Reads
//	r.Expression(checked)
//	parts, asks := r.Fields(), r.Asks()
//
// Floor 0 (leaf): imports cel/env, cel/typecheck, compilecost and value.
package reads
