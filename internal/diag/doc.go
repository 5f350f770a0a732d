// Package diag holds diagnostics: mistakes that the author of a policy (or of any other input file) can mend.
//
//	var l diag.List
//	l.Errorf("spec.rules[0].validate.pattern", "unsupported anchor +(%s)", key)
//
// A diagnostic has a severity, a field path, a position where the file is known, a summary (verbatim the text of the
// language reference where that lists one) and a hint how to mend it. Several are collected before anything is
// reported. Evaluation failures are not diagnostics: they are results with status error.
//
// Floor 0 (leaf): imports value.
package diag
