package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/autogen"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family/classic"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// Remark is about one place of the classic policy.
type Remark struct {
	Path string // such as spec.rules[0].validate.pattern.spec
	Text string
	Hint string // what to do about it; may be empty
}

// Rule is what one classic rule becomes.
type Rule struct {
	Name string
	// Policy is the policy in CEL; nil when there is no way.
	Policy map[string]any
	// Reasons say why there is no way.
	Reasons []Remark
	// Notes say what the converted policy does in another way.
	Notes []Remark
	// Uncovered are kinds that the classic rule covers, and Policy does not, as a note says.
	Uncovered []string
}

// Resources finds the resources of a kind selector without wildcards: one, but for kinds of the same name in several groups. It finds
// none of kinds that are not known.
type Resources func(policy.Target) []schema.GroupVersionResource

// Owns reports whether policies of a kind can be converted.
func Owns(apiVersion, kind string) bool { return classic.Owns(apiVersion, kind) }

// Policy converts a ClusterPolicy or a Policy, rule by rule. The mistakes are those of decoding.
func Policy(object map[string]any, resources Resources) ([]Rule, diag.List) {
	p, diags := classic.Decode(object)
	if diags.HasErrors() {
		return nil, diags
	}
	out := make([]Rule, 0, len(p.Spec.Rules))
	for i := range p.Spec.Rules {
		c := &converter{policy: p, resources: resources, index: i, path: "spec.rules[" + strconv.Itoa(i) + "]"}
		r := &p.Spec.Rules[i]
		made := c.rule(r)
		result := Rule{Name: r.Name, Reasons: c.reasons, Notes: c.notes, Uncovered: c.uncovered}
		if len(c.reasons) == 0 {
			result.Policy = made
		}
		out = append(out, result)
	}
	return out, diags
}

// converter converts one rule and collects what stands in the way.
type converter struct {
	policy    *kyvernov1.ClusterPolicy
	resources Resources
	index     int
	path      string
	loops     int
	element   expr // of the loop around it; zero outside of loops
	uncovered []string
	reasons   []Remark
	notes     []Remark
}

func (c *converter) refuse(path, text, hint string) {
	c.reasons = append(c.reasons, Remark{path, text, hint})
}

func (c *converter) note(path, text, hint string) {
	c.notes = append(c.notes, Remark{path, text, hint})
}

// variable is a new name for the element of a loop.
func (c *converter) variable() string {
	c.loops++
	if c.loops == 1 {
		return "e"
	}
	return "e" + strconv.Itoa(c.loops)
}

// rule makes the policy of a rule.
func (c *converter) rule(r *kyvernov1.Rule) map[string]any {
	spec := map[string]any{}
	c.settings(r, spec)
	c.matching(r, spec)
	switch {
	case r.Validation != nil:
		c.validation(r, spec)
	case r.Mutation != nil:
		c.refuse(c.path+".mutate", "mutate rules are not converted", "write a MutatingPolicy: patchStrategicMerge becomes applyConfiguration, patchesJson6902 becomes jsonPatch")
	case r.Generation != nil:
		c.refuse(c.path+".generate", "generate rules are not converted", "write a GeneratingPolicy: data becomes a literal or a template, clone becomes resource.Get with generator.Apply")
	case len(r.VerifyImages) > 0:
		c.refuse(c.path+".verifyImages", "rules that verify images are not converted", "write an ImageValidatingPolicy")
	default:
		c.refuse(c.path, "the rule does nothing", "")
	}
	name := c.policy.Name
	if len(c.policy.Spec.Rules) > 1 {
		name += "-" + strings.ToLower(strings.ReplaceAll(r.Name, " ", "-"))
	}
	metadata := map[string]any{"name": name}
	kind := "ValidatingPolicy"
	if c.policy.Kind == "Policy" {
		kind = "NamespacedValidatingPolicy"
		if c.policy.Namespace != "" {
			metadata["namespace"] = c.policy.Namespace
		}
	}
	if kept := c.annotations(); len(kept) > 0 {
		metadata["annotations"] = kept
	}
	if len(c.policy.Labels) > 0 {
		metadata["labels"] = anyMap(c.policy.Labels)
	}
	return map[string]any{"apiVersion": "policies.kyverno.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
}

func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}

// annotations are those of the policy without what only classic policies have.
func (c *converter) annotations() map[string]any {
	kept := maps.Clone(c.policy.Annotations)
	delete(kept, autogen.ControllersAnnotation)
	delete(kept, "kubectl.kubernetes.io/last-applied-configuration")
	return anyMap(kept)
}

// settings converts what the policy says for all of its rules.
func (c *converter) settings(r *kyvernov1.Rule, spec map[string]any) {
	s := &c.policy.Spec
	evaluation := map[string]any{}
	if s.Admission != nil && !*s.Admission {
		evaluation["admission"] = map[string]any{"enabled": false}
	}
	if s.Background != nil && !*s.Background {
		evaluation["background"] = map[string]any{"enabled": false}
	}
	if len(evaluation) > 0 {
		spec["evaluation"] = evaluation
	}
	failure, timeout := s.FailurePolicy, s.WebhookTimeoutSeconds
	if w := s.WebhookConfiguration; w != nil {
		if w.FailurePolicy != nil {
			failure = w.FailurePolicy
		}
		if w.TimeoutSeconds != nil {
			timeout = w.TimeoutSeconds
		}
	}
	if failure != nil {
		spec["failurePolicy"] = string(*failure)
	}
	if timeout != nil {
		spec["webhookConfiguration"] = map[string]any{"timeoutSeconds": int64(*timeout)}
	}
	if s.ApplyRules != nil && *s.ApplyRules == kyvernov1.ApplyOne && len(s.Rules) > 1 {
		c.refuse("spec.applyRules", "applyRules: One has no counterpart: policies in CEL are all evaluated", "")
	}
	if len(s.ValidationFailureActionOverrides) > 0 {
		c.refuse("spec.validationFailureActionOverrides", "another action in some namespaces has no counterpart", "write two policies with different namespaceSelectors")
	}
	if len(r.ReportProperties) > 0 {
		c.refuse(c.path+".reportProperties", "reportProperties with variables are not converted", "write them as auditAnnotations")
	}
	if v := r.Validation; v != nil {
		enforce := s.ValidationFailureAction.IsEnforce()
		if v.FailureAction != nil {
			enforce = v.FailureAction.IsEnforce()
		}
		if len(v.FailureActionOverrides) > 0 {
			c.refuse(c.path+".validate.failureActionOverrides", "another action in some namespaces has no counterpart", "write two policies with different namespaceSelectors")
		}
		actions := []any{"Audit"}
		if enforce {
			actions = []any{"Deny"}
		}
		if s.EmitWarning != nil && *s.EmitWarning {
			actions = append(actions, "Warn")
		}
		spec["validationActions"] = actions
	}
}

// validation converts the validate block of a rule.
func (c *converter) validation(r *kyvernov1.Rule, spec map[string]any) {
	v, path := r.Validation, c.path+".validate"
	switch {
	case v.RawPattern != nil:
		c.existing(v, path)
		if raw, ok := c.decode(v.RawPattern, path+".pattern"); ok {
			c.holds(spec, c.pattern(raw, member("object"), path+".pattern").fits, v.Message, path)
		}
	case v.RawAnyPattern != nil:
		c.existing(v, path)
		raw, _ := c.decode(v.RawAnyPattern, path+".anyPattern")
		c.holds(spec, c.anyPattern(raw, member("object"), path+".anyPattern"), v.Message, path)
	case v.Deny != nil:
		c.existing(v, path)
		denied := yes
		if raw, ok := c.decode(v.Deny.RawAnyAllConditions, path+".deny.conditions"); ok && raw != nil {
			denied = c.conditions(raw, path+".deny.conditions")
		}
		c.holds(spec, not(denied), v.Message, path)
	case v.CEL != nil:
		c.cel(v.CEL, v.Message, spec, path+".cel")
	case v.PodSecurity != nil:
		c.refuse(path+".podSecurity", "the Pod Security Standards are not one construct in CEL", "use the policies in examples/pod-security-cel")
	case len(v.ForEachValidation) > 0:
		c.existing(v, path)
		c.holds(spec, c.foreach(v.ForEachValidation, path+".foreach"), v.Message, path)
	case v.Manifests != nil:
		c.refuse(path+".manifests", "signed YAML has no counterpart in CEL", "")
	case v.Assert != nil:
		c.refuse(path+".assert", "assertion trees have no counterpart in CEL", "")
	default:
		c.refuse(path, "the rule does not validate anything", "")
	}
}

// foreach converts loops: each element of each list has to fit.
func (c *converter) foreach(loops []kyvernov1.ForEachValidation, path string) expr {
	out := yes
	for i := range loops {
		l, path := &loops[i], fmt.Sprintf("%s[%d]", path, i)
		all, ok := c.search(strings.TrimSpace(l.List), path+".list")
		if !ok {
			continue
		}
		if len(l.Context) > 0 {
			c.refuse(path+".context", "context entries are not converted", "")
		}
		if l.ElementScope != nil && !*l.ElementScope {
			c.refuse(path+".elementScope", "a loop whose pattern is for the whole object is not converted", "")
		}
		around, x := c.element, c.variable()
		c.element = member(x)
		fits := yes
		switch {
		case l.RawPattern != nil:
			if raw, ok := c.decode(l.RawPattern, path+".pattern"); ok {
				fits = c.pattern(raw, c.element, path+".pattern").fits
			}
		case l.RawAnyPattern != nil:
			raw, _ := c.decode(l.RawAnyPattern, path+".anyPattern")
			fits = c.anyPattern(raw, c.element, path+".anyPattern")
		case l.Deny != nil:
			if raw, ok := c.decode(l.Deny.RawAnyAllConditions, path+".deny.conditions"); ok && raw != nil {
				fits = not(c.conditions(raw, path+".deny.conditions"))
			} else {
				fits = no
			}
		default:
			fits = c.foreach(l.ForEachValidation, path+".foreach")
		}
		if p := l.AnyAllConditions; p != nil {
			fits = or(not(c.conditions(document(p), path+".preconditions")), fits)
		}
		c.element = around
		list := all.orElse("[]")
		out = and(out, list.macro("all", x, fits))
	}
	return out
}

// anyPattern converts alternatives. They are not applicable together, when none of them is.
func (c *converter) anyPattern(raw any, at expr, path string) expr {
	all, _ := raw.([]any)
	fits, off := no, yes
	for i, one := range all {
		part := c.pattern(one, at, fmt.Sprintf("%s[%d]", path, i))
		fits, off = or(fits, and(part.fits, not(part.off))), and(off, part.off)
	}
	return or(fits, off)
}

// existing says that a policy in CEL has no exemption for objects that violated it before.
func (c *converter) existing(v *kyvernov1.Validation, path string) {
	if v.AllowExistingViolations == nil || *v.AllowExistingViolations {
		c.note(path+".allowExistingViolations", "an update of an object that violated the rule before is allowed by the classic policy, and not by a policy in CEL", "")
	}
}

func (c *converter) decode(raw *apiextensionsv1.JSON, path string) (any, bool) {
	if raw == nil {
		return nil, false
	}
	v, err := value.DecodeJSON(raw.Raw)
	if err != nil {
		c.refuse(path, err.Error(), "")
		return nil, false
	}
	return v, true
}

// holds adds the only validation of a policy.
func (c *converter) holds(spec map[string]any, e expr, message, path string) {
	validation := map[string]any{"expression": e.text}
	c.message(message, path+".message", validation)
	spec["validations"] = []any{validation}
}

// message converts the message of a rule.
func (c *converter) message(message, path string, validation map[string]any) {
	if message == "" {
		return
	}
	if !strings.Contains(message, "{{") {
		validation["message"] = message
		return
	}
	before := c.reasons
	parts, ok := c.texts(message, path)
	if ok {
		validation["messageExpression"] = strings.Join(parts, " + ")
		return
	}
	// A message decides nothing: it stays as it is written.
	c.reasons = before
	validation["message"] = message
	c.note(path, "the variables of the message are not converted: they are shown as they are written", "write a messageExpression")
}

// cel takes over a rule that is written in CEL.
func (c *converter) cel(v *kyvernov1.CEL, message string, spec map[string]any, path string) {
	if v.ParamKind != nil || v.ParamRef != nil {
		c.refuse(path+".paramKind", "parameters have no counterpart", "read the object with resource.Get in a variable")
	}
	var validations []any
	for i := range v.Expressions {
		one := document(&v.Expressions[i])
		if v.Expressions[i].Message == "" && v.Expressions[i].MessageExpression == "" && message != "" {
			c.message(message, c.path+".validate.message", one)
		}
		if _, ok := one["reason"]; ok {
			delete(one, "reason")
			c.note(fmt.Sprintf("%s.expressions[%d].reason", path, i), "the reason is left out", "")
		}
		validations = append(validations, one)
	}
	spec["validations"] = validations
	if len(v.Variables) > 0 {
		var all []any
		for i := range v.Variables {
			all = append(all, document(&v.Variables[i]))
		}
		spec["variables"] = all
	}
	if len(v.AuditAnnotations) > 0 {
		var all []any
		for i := range v.AuditAnnotations {
			all = append(all, document(&v.AuditAnnotations[i]))
		}
		spec["auditAnnotations"] = all
	}
}

// document is a typed part of a policy as JSON.
func document(v any) map[string]any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of text
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(err)
	}
	return out
}
