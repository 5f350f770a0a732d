package jmespath

import (
	"errors"
	"fmt"
)

// UnknownKeyError says that an object lacks a key. In this dialect that is an error where standard JMESPath yields null;
// the constructs of package documentation tolerate it.
type UnknownKeyError struct{ Key string }

func (e *UnknownKeyError) Error() string { return fmt.Sprintf("Unknown key %q in path", e.Key) }

// SyntaxError says why an expression cannot be compiled.
type SyntaxError struct {
	// Expression is the whole text, Offset the byte at which the mistake was noticed.
	Expression string
	Offset     int
	msg        string
}

func (e *SyntaxError) Error() string { return "SyntaxError: " + e.msg }

// Highlight returns the expression with a caret under the place of the mistake, on two lines.
func (e *SyntaxError) Highlight() string {
	return fmt.Sprintf("%s\n%*s^", e.Expression, e.Offset, "")
}

// isUnknownKey is asked for every tolerated failure, so it does not unwrap: an error of loading a context entry, even when it
// was caused by an unknown key, is not a missing key of this expression.
func isUnknownKey(err error) bool {
	_, ok := err.(*UnknownKeyError)
	return ok
}

// argumentError says that a function got an argument of a type that it does not take, in the words of the reference.
type argumentError struct{ msg string }

func (e *argumentError) Error() string { return e.msg }

// ErrTooLarge is wrapped by the error for an input that a library of another's making would have to digest whole (YAML,
// certificates, regular expressions) and that is larger than any honest policy needs.
var ErrTooLarge = errors.New("input is too large")

// functionError words an error of one of Kyverno's functions.
func functionError(name, format string, args ...any) error {
	return fmt.Errorf("JMESPath function '"+name+"': "+format, args...)
}
