package convert

import (
	"maps"
	"slices"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
)

// annotations returns the annotations of the policy, except those for classic policies only.
func (c *converter) annotations() map[string]any {
	kept := maps.Clone(c.policy.Annotations)
	delete(kept, autogen.ControllersAnnotation)
	delete(kept, "kubectl.kubernetes.io/last-applied-configuration")
	out := anyMap(kept)
	maps.Copy(out, anyMap(c.marks))
	return out
}

func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}

// settings converts the settings that the policy has for all of its rules.
func (c *converter) settings(r *kyvernov1.Rule, spec map[string]any) {
	s := &c.policy.Spec
	if r.Generation != nil {
		c.generationSettings(r, spec)
		return
	}
	evaluation := map[string]any{}
	if s.Admission != nil && !*s.Admission {
		evaluation["admission"] = map[string]any{"enabled": false}
	}
	if s.Background != nil && !*s.Background || r.Mutation != nil { // scans do not evaluate mutate rules
		evaluation["background"] = map[string]any{"enabled": false}
	}
	if len(evaluation) > 0 {
		spec["evaluation"] = evaluation
	}
	failure := s.FailurePolicy
	if w := s.WebhookConfiguration; w != nil && w.FailurePolicy != nil {
		failure = w.FailurePolicy
	}
	if failure != nil {
		spec["failurePolicy"] = string(*failure)
	}
	c.commonSettings(r, spec)
	if v := r.Validation; v != nil {
		overrides := slices.Clone(v.FailureActionOverrides)
		if v.FailureAction == nil {
			overrides = append(overrides, s.ValidationFailureActionOverrides...)
		}
		c.overrides(overrides, c.enforce(v), c.path+".validate.failureActionOverrides")
		actions := []any{"Audit"}
		if c.enforce(v) {
			actions = []any{"Deny"}
		}
		if s.EmitWarning != nil && *s.EmitWarning {
			actions = append(actions, "Warn")
		}
		spec["validationActions"] = actions
	}
}

// commonSettings converts the settings that all kinds have.
func (c *converter) commonSettings(r *kyvernov1.Rule, spec map[string]any) {
	s := &c.policy.Spec
	timeout := s.WebhookTimeoutSeconds
	if w := s.WebhookConfiguration; w != nil && w.TimeoutSeconds != nil {
		timeout = w.TimeoutSeconds
	}
	if timeout != nil {
		spec["webhookConfiguration"] = map[string]any{"timeoutSeconds": int64(*timeout)}
	}
}

// existing exempts objects that violated the policy before, as the classic rule does.
func (c *converter) existing(v *kyvernov1.Validation) {
	if c.tolerant = isOn(v.AllowExistingViolations); c.tolerant && c.enforce(v) {
		c.mark(existingAnnotation, "true")
	}
}

// mark adds an annotation to the policy.
func (c *converter) mark(annotation, value string) {
	if c.marks == nil {
		c.marks = map[string]string{}
	}
	c.marks[annotation] = value
}

// enforce reports whether violations of a rule are denied.
func (c *converter) enforce(v *kyvernov1.Validation) bool {
	if v.FailureAction != nil {
		return v.FailureAction.IsEnforce()
	}
	return c.policy.Spec.ValidationFailureAction.IsEnforce()
}
