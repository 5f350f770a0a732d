package celenv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"

	"ephor.invalid/ephor/internal/kubeversion"
)

// Issue is one mistake in an expression.
type Issue struct {
	Line, Column int // Line counts from 1 and Column from 0, as in the library
	Message      string
}

// CompileError lists the mistakes of an expression.
type CompileError struct {
	Issues []Issue
	// Since is the oldest version of Kubernetes in which the expression compiles, if it is newer than the server's; otherwise 0.
	Since kubeversion.Minor
	// Server is the version with which it was compiled.
	Server kubeversion.Minor
	text   string // the output of the library, with the source and carets
}

// Error returns the text that the API server shows.
func (e *CompileError) Error() string { return "compilation failed: " + e.text }

// Newer returns how to correct an expression that needs a newer version of Kubernetes; empty for other mistakes.
func (e *CompileError) Newer() string {
	if e.Since == 0 {
		return ""
	}
	return fmt.Sprintf("the expression needs functions that exist since Kubernetes %s; the API server has %s", e.Since, e.Server)
}

// Text returns the output of the library: each mistake with the source and a caret.
func (e *CompileError) Text() string { return e.text }

// Summary returns the reason why an expression does not compile, on one line.
func Summary(err error) string {
	if e := (*CompileError)(nil); errors.As(err, &e) {
		return e.summary()
	}
	return err.Error()
}

func (e *CompileError) summary() string {
	out := make([]string, len(e.Issues))
	for i, x := range e.Issues {
		out[i] = fmt.Sprintf("%d:%d: %s", x.Line, x.Column+1, x.Message)
	}
	return strings.Join(out, "; ")
}

func newCompileError(issues *cel.Issues) *CompileError {
	e := &CompileError{text: issues.String()}
	for _, x := range issues.Errors() {
		e.Issues = append(e.Issues, Issue{Line: x.Location.Line(), Column: x.Location.Column(), Message: x.Message})
	}
	return e
}
