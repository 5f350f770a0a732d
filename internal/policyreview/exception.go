package policyreview

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
)

// Exceptions decides which PolicyExceptions take effect.
type Exceptions struct {
	Enabled bool
	// Namespace is the only namespace whose exceptions take effect; * for all, empty for none.
	Namespace string
	// Approval: an exception takes effect only if a user approves it who may do so.
	Approval bool
	// Controllers is the namespace of the controllers, whose accounts write approvals.
	Controllers string
	// Approved records that the user approved the exception as it is in the request; nil if nothing is recorded.
	Approved func(object map[string]any, user string)
}

// textPending is the warning about an exception that has no effect yet.
const textPending = "the exception is pending: it has no effect until a user who may approve policyexceptions in its namespace approves it"

// These texts are copied verbatim from Kyverno.
const (
	textExceptionsDisabled  = "PolicyException resources would not be processed until it is enabled."
	textExceptionsNamespace = "The exceptionNamespace flag is not set"
	textExceptionsElsewhere = "PolicyException resource namespace must match the defined namespace."
)

// textExceptionExpired begins the warning about an exception that has already expired.
const textExceptionExpired = "the exception has no effect: it expired at "

// On reports whether exceptions of some namespace take effect.
func (e Exceptions) On() bool { return e.Enabled && e.Namespace != "" }

// warning returns the reason why exceptions in the namespace have no effect; empty if they have an effect.
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

// Exception accepts an exception if it compiles. If it will have no effect, the answer warns with the reason.
func (v *Reviewer) Exception(ctx context.Context, req *policy.Request) Answer {
	switch {
	case req.Subresource == "status" && v.Exceptions.Approval:
		return v.exceptionStatus(req)
	case req.Subresource != "", req.Operation == policy.Delete:
		return Answer{Allowed: true}
	}
	object, err := req.Object.Map()
	if err != nil {
		return Answer{Message: "the exception cannot be read: " + err.Error()}
	}
	if leaves(req, object) && sameAnnotations(req, object) {
		return Answer{Allowed: true}
	}
	e, diags := v.Families.OneException(compile.Object{Value: object})
	if mistakes := diags.Errors(); len(mistakes) > 0 {
		if x := v.Families.ExceptionsOf(typeOf(object)); x != nil && x.FieldErrors {
			message, _ := fieldErrors(mistakes)
			return Answer{Message: message}
		}
		return Answer{Message: refusal(mistakes)}
	}
	if text := v.unmet(req, object, e); text != "" {
		return Answer{Message: text}
	}
	res := Answer{Allowed: true}
	if w := v.Exceptions.warning(req.Namespace); w != "" {
		res.Warnings = append(res.Warnings, w)
	}
	if v.Exceptions.Approval && !v.approve(ctx, req, object) {
		res.Warnings = append(res.Warnings, textPending)
	}
	if e.Expired(v.Now()) {
		res.Warnings = append(res.Warnings, textExceptionExpired+e.Expires.UTC().Format(time.RFC3339))
	}
	res.Warnings = appendWarnings(res.Warnings, diags.Warnings())
	return res
}
