// Package diag holds diagnostics: mistakes that the author of a policy (or of any other input file) can correct.
//
//	var l diag.List
//	l.Errorf("spec.rules[0].validate.pattern", "unsupported anchor +(%s)", key)
//
//	l.Code(diag.UnknownField, key)            // for code that has to recognize this mistake
//	l.Required("spec.schedule", "a policy needs a schedule") // with the code and the words of the API server
//
// A diagnostic has a severity, a field path, a position if the file is known, a summary (Kyverno's text verbatim if it has one) and a hint
// for the correction. Several are collected before any is reported. Code that handles a kind of mistake specially compares the code, never
// the text (prose_test.go in the root checks this). Evaluation failures are not diagnostics: they are results with status error.
//
// Floor 0 (leaf): imports value.
package diag
