package admission

import (
	"context"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Exceptions says whose PolicyExceptions are applied.
type Exceptions struct {
	Enabled bool
	// Namespace is the only namespace whose exceptions count; * for all, empty for none.
	Namespace string
}

// These texts are Kyverno's, verbatim.
const (
	textExceptionsDisabled  = "PolicyException resources would not be processed until it is enabled."
	textExceptionsNamespace = "The exceptionNamespace flag is not set"
	textExceptionsElsewhere = "PolicyException resource namespace must match the defined namespace."
)

// warning says why an exception in the namespace will not be applied; empty when it will.
func (e Exceptions) warning(namespace string) string {
	switch {
	case !e.Enabled:
		return textExceptionsDisabled
	case e.Namespace == "":
		return textExceptionsNamespace
	case e.Namespace != "*" && e.Namespace != namespace:
		return textExceptionsElsewhere
	}
	return ""
}

// reviewException accepts an exception when it compiles, also one that will not be applied; then it says why.
func (s *Server) reviewException(_ context.Context, req *policy.Request, _ place) (response, error) {
	if req.Subresource != "" || req.Operation == policy.Delete {
		return response{allowed: true}, nil
	}
	object, err := req.Object.Map()
	if err != nil {
		return response{message: "the exception cannot be read: " + err.Error()}, nil
	}
	if leaves(req, object) {
		return response{allowed: true}, nil
	}
	_, diags := compile.OneException(compile.Object{Value: object})
	if diags.HasErrors() {
		return response{message: refusal(diags.Errors())}, nil
	}
	res := response{allowed: true}
	if w := s.Exceptions.warning(req.Namespace); w != "" {
		res.warnings = append(res.warnings, w)
	}
	res.warnings = appendWarnings(res.warnings, diags.Warnings())
	return res, nil
}
