package policyreview

import (
	"context"
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schedule"
)

// textTTL is copied verbatim from Kyverno.
const textTTL = schedule.TTLLabel + " label value cannot be parsed as any recognizable format (%v)"

// TTL warns of a label that would never delete the object. It denies nothing, since the object is not ours.
func (v *Reviewer) TTL(_ context.Context, req *policy.Request) Answer {
	res := Answer{Allowed: true}
	object, err := req.Object.Map()
	if err != nil {
		return res
	}
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	value, labelled := labels[schedule.TTLLabel].(string)
	if !labelled {
		return res
	}
	if _, err := schedule.EndOfLife(value, time.Time{}); err != nil {
		res.Warnings = []string{fmt.Sprintf(textTTL, err)}
	}
	return res
}
