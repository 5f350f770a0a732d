// Package strict fills Go API types from decoded JSON objects and reports everything that does not fit, all of it at
// once: unknown fields with their field paths, and values of the wrong type.
//
//	var p kyvernov1.ClusterPolicy
//	diags := strict.Decode(obj, &p)
//	// spec.rules[0].validate.mesage: unknown field "mesage" (did you mean "message"?)
//
// encoding/json stops at the first unknown field and does not say where it is; an author who misspelt three fields
// wants to read three lines. Whatever fits is decoded even when something else does not. The package knows nothing of
// the meaning of a field; defaulting and validation belong to the families.
//
// Floor 0 (leaf): imports diag and value.
package strict
