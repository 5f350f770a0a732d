package jmespath

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// UnknownKeyError is the error for a key that an object lacks. Standard JMESPath yields null instead; the package
// documentation lists the constructs that tolerate it.
type UnknownKeyError struct{ Key string }

func (e *UnknownKeyError) Error() string { return fmt.Sprintf("Unknown key %q in path", e.Key) }

// MissingKey returns the key, for records of an evaluation (package trace).
func (e *UnknownKeyError) MissingKey() string { return e.Key }

// SyntaxError is the reason why an expression cannot be compiled.
type SyntaxError struct {
	// Expression is the whole text, Offset the byte at which the mistake was detected.
	Expression string
	Offset     int
	msg        string
	literal    bool
}

// Error returns Kyverno's text for the mistake; Kyverno prints a mistake inside a JSON literal without a prefix.
func (e *SyntaxError) Error() string {
	if e.literal {
		return e.msg
	}
	return "SyntaxError: " + e.msg
}

// Hint describes where the mistake was detected, for people who do not know the names of tokens.
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
		if open := unclosed(e.Expression); open != "" {
			return "the expression ends" + after + ": close it with " + open
		}
		return "the expression ends" + after + ": complete it"
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return fmt.Sprintf("unexpected %q%s", string(r), after)
}

// unclosed returns the bracket that closes the innermost open one; empty if none is open. It skips quoted texts.
func unclosed(expression string) string {
	closing := map[rune]rune{'[': ']', '(': ')', '{': '}'}
	var open []rune
	quote := rune(0)
	for _, r := range expression {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"' || r == '`':
			quote = r
		case closing[r] != 0:
			open = append(open, closing[r])
		case len(open) > 0 && r == open[len(open)-1]:
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 {
		return ""
	}
	return string(open[len(open)-1])
}

// Highlight returns the expression with a caret under the place of the mistake, on two lines.
func (e *SyntaxError) Highlight() string {
	return fmt.Sprintf("%s\n%*s^", e.Expression, e.Offset, "")
}

// isUnknownKey reports whether the expression itself lacks a key. It does not unwrap: an error of loading a context entry,
// even if an unknown key caused it, is not a missing key of this expression.
func isUnknownKey(err error) bool {
	_, ok := err.(*UnknownKeyError)
	return ok
}

// UnknownFunctionError is the error for a call of a function that does not exist, with Kyverno's text.
type UnknownFunctionError struct{ Name string }

func (e *UnknownFunctionError) Error() string { return "unknown function: " + e.Name }

// argumentError is the error for an argument of a type that a function does not accept, with Kyverno's text.
type argumentError struct {
	msg      string
	function string
	index    int // of the argument, from 0
	want     []Type
	value    any
}

func (e *argumentError) Error() string { return e.msg }

// arityError is the error for a call with another number of arguments, with Kyverno's text.
type arityError struct {
	msg       string
	function  string
	want, got int
	more      bool // any number above want is right, too
}

func (e *arityError) Error() string { return e.msg }

// IsMisfit reports whether a function got an argument of another type, or another number of arguments.
func IsMisfit(err error) bool {
	argument, arity := (*argumentError)(nil), (*arityError)(nil)
	return errors.As(err, &argument) || errors.As(err, &arity)
}

// Plain returns what is wrong with a call of a function: its name, the argument, and what is expected. For other errors it returns their text.
func Plain(err error) string {
	if a := (*argumentError)(nil); errors.As(err, &a) {
		want := make([]string, len(a.want))
		for i, t := range a.want {
			want[i] = string(t)
		}
		return fmt.Sprintf("%s: argument %d has to be of the type %s, and it is %s", a.function, a.index+1, strings.Join(want, " or "), plainValue(a.value))
	}
	if a := (*arityError)(nil); errors.As(err, &a) {
		least := ""
		if a.more {
			least = "at least "
		}
		return fmt.Sprintf("%s: the number of arguments is %d, and it has to be %s%d", a.function, a.got, least, a.want)
	}
	return err.Error()
}

// plainValue returns a value with its type.
func plainValue(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case *expref:
		return "an expression (&…)"
	}
	kind := "an object"
	switch {
	case is(v, String):
		kind = "the string"
	case is(v, Number):
		kind = "the number"
	case is(v, Boolean):
		kind = "the boolean"
	case is(v, Array):
		kind = "the array"
	}
	return kind + " " + value.Message(value.JSON(v))
}

// callError is an error inside a function: data that it could not process.
type callError struct{ err error }

// Error truncates the function's text, since it quotes its arguments and each caller copies it.
func (e *callError) Error() string { return value.Message(e.err.Error()) }
func (e *callError) Unwrap() error { return e.err }

// worldError is the failure of something outside, such as a name that cannot be resolved.
type worldError struct{ err error }

func (e *worldError) Error() string { return e.err.Error() }
func (e *worldError) Unwrap() error { return e.err }

// misfits reports whether an error means that the data do not fit the expression. As in Kyverno, the left side of a flatten,
// a filter and .* turns such an error into null. An exhausted budget, a failure of the world, data that could not be loaded
// and mistakes of the author (an unknown function) stay errors there, too: missing information is never an empty result.
func misfits(err error) bool {
	switch err.(type) {
	case *UnknownKeyError, *argumentError, *callError:
		return true
	}
	return false
}

// failedCall classifies the error of a function's body.
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

// ErrTooLarge is wrapped by the error for an input that a third-party library would have to process as a whole (YAML,
// certificates, regular expressions) and that is larger than any honest policy needs.
var ErrTooLarge = errors.New("input is too large")

// functionError returns an error in the form that Kyverno's functions use.
func functionError(name, format string, args ...any) error {
	return fmt.Errorf("JMESPath function '"+name+"': "+format, args...)
}
