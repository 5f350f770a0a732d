// Package strict decodes JSON objects into Go API types and reports everything that does not fit, all of it at once: unknown fields with
// their field paths, and values of the wrong type.
//
//	var p kyvernov1.ClusterPolicy
//	diags := strict.Decode(obj, &p)
//	// spec.rules[0].validate.mesage: unknown field "mesage" (did you mean "message"?)
//
// encoding/json stops at the first unknown field without its path; an author who misspelt three fields wants to read three lines. Fields
// that fit are decoded even if others do not. The package does not know the meaning of fields; defaulting and validation belong to the
// families.
//
// Floor 0 (leaf): imports diag and value.
package strict
