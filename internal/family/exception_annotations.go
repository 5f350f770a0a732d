package family

import (
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
)

// exceptionDomain begins the annotations of exceptions that Kyverno does not have. It ignores them.
const exceptionDomain = names.Exceptions

// The annotations of exceptions.
const (
	// ExceptionExpires is the time at which the exception ends, in the form of RFC 3339.
	ExceptionExpires = exceptionDomain + "expires-at"
	// ExceptionReason is why the exception exists, and ExceptionOwner who answers for it. Reports show both.
	ExceptionReason = exceptionDomain + "reason"
	ExceptionOwner  = exceptionDomain + "owner"
	// ExceptionApprove has no meaning of its own: who may approve exceptions sets it, to any text, to approve one that another user wrote.
	ExceptionApprove = exceptionDomain + "approve"
	// ExceptionCovers is CoversWorkload if the exception covers the objects that an exempt controller makes, and the rules derived from a
	// named rule.
	ExceptionCovers = exceptionDomain + "covers"
	// ExceptionAction is ActionAudit if the objects are admitted and reported instead of being exempt.
	ExceptionAction = exceptionDomain + "action"
)

// The values of those annotations.
const (
	CoversWorkload = "workload"
	ActionAudit    = "Audit"
)

var exceptionAnnotations = []string{ExceptionExpires, ExceptionReason, ExceptionOwner, ExceptionCovers, ExceptionAction, ExceptionApprove}

// AnnotateException applies the annotations of an exception, and returns their mistakes. An unknown one is a mistake, too: a misspelt end
// would never come.
func AnnotateException(e *policy.Exception, annotations map[string]string) (diags diag.List) {
	for _, key := range sortedAnnotations(annotations) {
		path, v := "metadata.annotations["+key+"]", annotations[key]
		switch key {
		case ExceptionExpires:
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				diags.Invalid(path, v, "must be a time such as 2026-01-31T12:00:00Z")
				continue
			}
			if e.Expires.IsZero() || at.Before(e.Expires) {
				e.Expires = at
			}
		case ExceptionReason:
			e.Reason = v
		case ExceptionApprove:
		case ExceptionOwner:
			e.Owner = v
		case ExceptionCovers:
			if e.Workload = v == CoversWorkload; !e.Workload {
				diags.Unsupported(path, v, []string{CoversWorkload})
			}
			e.Needs.Lookups = e.Needs.Lookups || e.Workload
		case ExceptionAction:
			if e.Audit = v == ActionAudit; !e.Audit {
				diags.Unsupported(path, v, []string{ActionAudit})
			}
		default:
			diags.Invalid(path, v, "there is no such annotation")
			diags.Hint("the annotations are %s", strings.Join(exceptionAnnotations, ", "))
		}
	}
	return diags
}

func sortedAnnotations(annotations map[string]string) (keys []string) {
	for key := range annotations {
		if strings.HasPrefix(key, exceptionDomain) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
