package celpolicy

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/celrule"
)

// Parts of a policy that have results of their own. Reports show the part as the rule.
const (
	PartEvaluation = "evaluation"
	PartException  = "exception"
)

// PropertyIndex is the property with the index of the decisive validation.
const PropertyIndex = "cel.validationIndex"

// Failure returns the message of a failed validation. The texts are copied verbatim from Kyverno.
func Failure(out celrule.Outcome) string {
	if out.MessageError != nil {
		return "failed to evaluate message expression: " + Text(out.MessageError)
	}
	return cmp.Or(out.Message, "CEL expression validation failed at index "+strconv.Itoa(out.Index))
}

// Text returns the text of an expression error as in Kyverno: the text of the CEL library without the expression. It joins several errors
// with semicolons.
func Text(err error) string {
	if several := celrule.Failures(nil); errors.As(err, &several) {
		texts := make([]string, len(several))
		for i, x := range several {
			texts[i] = Text(x)
		}
		return strings.Join(texts, "; ")
	}
	if annotation := (*celrule.AnnotationError)(nil); errors.As(err, &annotation) {
		if annotation.Type != "" {
			return annotation.Error()
		}
		return "failed to evaluate auditAnnotation '" + annotation.Key + "': " + Text(annotation.Err)
	}
	if evaluation := (*env.EvaluationError)(nil); errors.As(err, &evaluation) {
		return evaluation.Err.Error()
	}
	return err.Error()
}
