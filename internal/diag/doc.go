// Package diag holds diagnostics: mistakes that the author of a policy (or of any other input file) can correct.
//
//	var l diag.List
//	l.Errorf("spec.rules[0].validate.pattern", "unsupported anchor +(%s)", key)
//
//	l.Code(diag.UnknownField, key)            // for code that has to recognize this mistake
//	l.Required("spec.schedule", "a policy needs a schedule") // with the code and the words of the API server
//
// A diagnostic has a severity, a field path, a position where the file is known, a summary (verbatim the text of the
// policy language where that lists one) and a hint how to correct it. Several are collected before anything is reported.
// Code that treats a kind of mistake in a way of its own compares the code, never the text (prose_test.go in the root
// holds this). Evaluation failures are not diagnostics: they are results with status error.
//
// Floor 0 (leaf): imports value.
package diag
