// Package strict decodes JSON objects into Go API types and reports all problems at once: unknown fields with their field paths, and
// values of the wrong type.
//
//	var p kyvernov1.ClusterPolicy
//	diags := strict.Decode(obj, &p)
//	// spec.rules[0].validate.mesage: unknown field "mesage" (did you mean "message"?)
//
// encoding/json stops at the first unknown field and does not give its path, but an author who misspelt three fields wants three
// messages. Valid fields are decoded even if others are not valid. The package does not know the meaning of fields; the families do
// defaulting and validation.
//
// Floor 0 (leaf): imports diag and value.
package strict
