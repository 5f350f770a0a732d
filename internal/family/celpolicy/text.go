package celpolicy

import (
	"errors"
	"strings"

	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/celrule"
)

// Parts of a policy that give a result of their own. Reports name them as the rule.
const (
	PartEvaluation = "evaluation"
	PartException  = "exception"
)

// Text is the text of an error of expressions as Kyverno words it: the library's, without the expression; several joined by a
// semicolon.
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
	if evaluation := (*celenv.EvaluationError)(nil); errors.As(err, &evaluation) {
		return evaluation.Err.Error()
	}
	return err.Error()
}
