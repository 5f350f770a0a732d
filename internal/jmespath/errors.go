package jmespath

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// UnknownKeyError says that an object lacks a key. In this dialect that is an error where standard JMESPath yields null;
// the constructs of package documentation tolerate it.
type UnknownKeyError struct{ Key string }

func (e *UnknownKeyError) Error() string { return fmt.Sprintf("Unknown key %q in path", e.Key) }

// MissingKey is the key, for notes of an evaluation (package trace).
func (e *UnknownKeyError) MissingKey() string { return e.Key }

// SyntaxError says why an expression cannot be compiled.
type SyntaxError struct {
	// Expression is the whole text, Offset the byte at which the mistake was noticed.
	Expression string
	Offset     int
	msg        string
	literal    bool
}

// Error words the mistake as Kyverno does, which prints a mistake inside a JSON literal as it is.
func (e *SyntaxError) Error() string {
	if e.literal {
		return e.msg
	}
	return "SyntaxError: " + e.msg
}

// Hint says at which characters the mistake was noticed, for people who do not know the names of tokens.
func (e *SyntaxError) Hint() string {
	at := min(max(e.Offset, 0), len(e.Expression))
	before := strings.TrimRight(e.Expression[:at], " \t\n")
	after := ""
	if before != "" {
		r, _ := utf8.DecodeLastRuneInString(before)
		after = fmt.Sprintf(" after %q", string(r))
	}
	rest := strings.TrimLeft(e.Expression[at:], " \t\n")
	if rest == "" {
		return "the expression ends" + after
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return fmt.Sprintf("unexpected %q%s", string(r), after)
}

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

// argumentError says that a function got an argument of a type that it does not take, in the words of Kyverno.
type argumentError struct{ msg string }

func (e *argumentError) Error() string { return e.msg }

// callError is what went wrong inside a function: data that it could not digest.
type callError struct{ err error }

// Error cuts what the function says, since it quotes its arguments and each caller copies it.
func (e *callError) Error() string { return value.Message(e.err.Error()) }
func (e *callError) Unwrap() error { return e.err }

// worldError is the failure of something outside, such as a name that cannot be resolved.
type worldError struct{ err error }

func (e *worldError) Error() string { return e.err.Error() }
func (e *worldError) Unwrap() error { return e.err }

// misfits reports whether an error says that the data do not fit the expression: what the left side of a flatten, a filter
// and .* makes null of, as in Kyverno. A spent budget, the world failing, data that could not be loaded and mistakes
// of the author (an unknown function) stay errors there too: missing information is never an empty result.
func misfits(err error) bool {
	switch err.(type) {
	case *UnknownKeyError, *argumentError, *callError:
		return true
	}
	return false
}

// failedCall sorts the error of a function's body.
func failedCall(err error) error {
	if misfits(err) {
		return err
	}
	var outside *worldError
	for _, other := range []error{budget.ErrExhausted, world.ErrUnavailable, ErrTooLarge, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, other) {
			return err
		}
	}
	if errors.As(err, &outside) {
		return err
	}
	return &callError{err}
}

// ErrTooLarge is wrapped by the error for an input that a library of another's making would have to digest whole (YAML,
// certificates, regular expressions) and that is larger than any honest policy needs.
var ErrTooLarge = errors.New("input is too large")

// functionError words an error of one of Kyverno's functions.
func functionError(name, format string, args ...any) error {
	return fmt.Errorf("JMESPath function '"+name+"': "+format, args...)
}
