package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/family/cleanup"
	"ephor.invalid/ephor/internal/pattern"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Remark is a remark about one place of the classic policy.
type Remark struct {
	Path string // such as spec.rules[0].validate.pattern.spec
	Text string
	Hint string // what to do about it; may be empty
}

// Rule is the conversion of one classic rule.
type Rule struct {
	Name string
	// Policy is the CEL policy; nil if the rule cannot be converted.
	Policy map[string]any
	// More are further policies that the rule needs: for the namespaces in which violations have another action, or for other images.
	More []map[string]any
	// Controllers: the classic rule also covers Pod controllers. Whether it does depends on the other rules of its policy.
	Controllers bool
	// Reasons are the reasons why the rule cannot be converted.
	Reasons []Remark
	// Notes describe how the behaviour of the converted policy differs.
	Notes []Remark
	// Uncovered are the kinds that the classic rule covers and Policy does not. A note reports them.
	Uncovered []string
}

// Resources returns the resources of a kind selector without wildcards. It returns one resource, several if several groups have a
// kind of this name, and none for unknown kinds.
type Resources func(policy.Target) []schema.GroupVersionResource

// Types returns the type of a field of a kind: list, map, string, integer, number or boolean; empty if the schema does not say. names is the path of
// the field; an empty name stands for the elements of a list.
type Types func(kind schema.GroupVersionKind, names []string) string

// Schemas holds the available information about kinds.
type Schemas struct {
	Resources Resources
	Types     Types
}

// Owns reports whether policies of a kind can be converted.
func Owns(apiVersion, kind string) bool {
	return classic.Owns(apiVersion, kind) || cleanup.Owns(apiVersion, kind)
}

// HasRules reports whether policies of the kind have rules, each of which becomes a policy.
func HasRules(apiVersion, kind string) bool { return classic.Owns(apiVersion, kind) }

// Policy converts a ClusterPolicy or a Policy, rule by rule, or a cleanup policy. The mistakes are those of decoding.
func Policy(object map[string]any, schemas Schemas) ([]Rule, diag.List) {
	apiVersion, _ := object["apiVersion"].(string)
	if kind, _ := object["kind"].(string); cleanup.Owns(apiVersion, kind) {
		return cleanupPolicy(object, schemas)
	}
	p, diags := classic.Decode(object)
	if diags.HasErrors() {
		return nil, diags
	}
	out := make([]Rule, 0, len(p.Spec.Rules))
	for i := range p.Spec.Rules {
		c := &converter{policy: p, schemas: schemas, index: i, path: "spec.rules[" + strconv.Itoa(i) + "]", object: member("object"), changed: member("object")}
		r := &p.Spec.Rules[i]
		made := c.rule(r)
		result := Rule{Name: r.Name, Reasons: c.reasons, Notes: c.notes, Uncovered: c.uncovered, Controllers: c.controllers}
		if len(c.reasons) == 0 {
			result.Policy, result.More = made, append(c.overridden(made), c.more...)
		}
		out = append(out, result)
	}
	return out, diags
}

// converter converts one rule and collects the obstacles.
type converter struct {
	policy  *kyvernov1.ClusterPolicy
	schemas Schemas
	index   int
	trail   trail // the path to the current part of a pattern
	path    string
	loops   map[string]int // how often each name of a variable of a loop occurs
	// tolerant: the rule admits updates of objects that violated it before.
	tolerant bool
	// elsewhere is the condition that the action of violations is not that of the policy, because of the namespace; zero for never.
	elsewhere expr
	enforced  bool // violations are denied, apart from there
	// partial: a loop may leave out elements, or begins with the first one.
	partial bool
	// demands are the variables inside of variables, which are errors if they are missing.
	demands []string
	// needed collects the variables of a pattern that may be missing; nil if they are not collected.
	needed *[]term
	// heard collects the conditions under which the variables of a condition have a value; nil if they are not collected.
	heard        *[]expr
	element      expr     // the element of the enclosing loop; zero outside of loops
	elementPlace []string // its place in the object; nil if unknown
	elementShape shape
	position     expr   // the index of the element in its list; zero if unknown
	outer        []loop // the enclosing loops
	// object is the value of `request.object`: the object, or the Pod in it.
	object expr
	// changed is what patches change, and `target` of a rule with targets: the object, or the Pod in it.
	changed expr
	// unless is the part of the preconditions that validations have to test, since conditions of policies cannot read variables; zero for none.
	unless expr
	// here is the value at the place of the current part of a patch, which {{ @ }} stands for; zero where it has none.
	here    expr
	marks   map[string]string // annotations of the policy
	entries map[string]term   // of the context, by their names
	entered []entered         // those entries that may become variables, in their order
	// variables are the variables that the converted expressions need.
	variables   []any
	controllers bool // the classic rule covers pod controllers
	// debugged: the rule adds digests to the images of debug containers, too.
	debugged bool
	// extracted is the list of the images that imageExtractors find; zero without them.
	extracted expr
	// predicate is the content of an attestation, whose fields are variables of its conditions; zero elsewhere.
	predicate expr
	image     bool // the variable image is the image that is verified
	// failing are the lists of the messages of the elements that fail, one for each loop; telling: some of them have messages.
	failing []string
	telling bool
	// inMessage: a message is converted, which does not decide anything.
	inMessage bool
	// deleting: the policy selects objects and not requests, and `target` is the object.
	deleting  bool
	more      []map[string]any          // further policies of the rule
	matched   []schema.GroupVersionKind // the kinds that the rule matches; the Kind is empty for a wildcard
	uncovered []string
	reasons   []Remark
	notes     []Remark
}

// loop is the current element of a loop, and its index; zero if unknown.
type loop struct{ element, position expr }

func (c *converter) refuse(path, text, hint string) {
	if r := (Remark{path, text, hint}); !slices.Contains(c.reasons, r) { // a part may be converted twice
		c.reasons = append(c.reasons, r)
	}
}

func (c *converter) note(path, text, hint string) {
	if r := (Remark{path, text, hint}); !slices.Contains(c.notes, r) {
		c.notes = append(c.notes, r)
	}
}

// inPods reports whether the patches are about Pods, in pod controllers too.
func (c *converter) inPods() bool { return c.changed.text == "variables.pod" }

// rule returns the policy of a rule.
func (c *converter) rule(r *kyvernov1.Rule) map[string]any {
	spec := map[string]any{}
	c.settings(r, spec)
	c.matching(r, spec)
	kind := "ValidatingPolicy"
	switch {
	case r.Validation != nil:
		c.validation(r, spec)
		c.properties(r, spec)
	case r.Mutation != nil:
		kind = "MutatingPolicy"
		c.mutation(r, spec)
	case r.Generation != nil:
		kind = "GeneratingPolicy"
		c.generation(r, spec)
	case len(r.VerifyImages) > 0:
		kind = "ImageValidatingPolicy"
		c.verification(r, spec)
	default:
		c.refuse(c.path, "the rule does nothing", "")
	}
	c.share(spec)
	c.subjectVariable(r, spec)
	return c.assembled(kind, c.name(r), c.policy.Kind == "Policy", spec)
}

// name returns the name of the policy for a rule.
func (c *converter) name(r *kyvernov1.Rule) string {
	if len(c.policy.Spec.Rules) == 1 {
		return c.policy.Name
	}
	return c.policy.Name + "-" + strings.Trim(notInNames().ReplaceAllString(strings.ToLower(r.Name), "-"), "-.")
}

// notInNames matches what names of objects may not have.
var notInNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9.-]+`) })

// subjectVariable adds the variable for the object of the request, or the deleted one, if an expression reads it.
func (c *converter) subjectVariable(r *kyvernov1.Rule, spec map[string]any) {
	if c.object.text != subject || !strings.Contains(value.JSON(spec), subject) {
		return
	}
	variables, _ := spec["variables"].([]any)
	if v := r.Validation; v != nil && v.CEL != nil && slices.ContainsFunc(v.CEL.Variables, func(v admissionregistrationv1.Variable) bool { return v.Name == "object" }) {
		c.refuse(c.path+".validate.cel.variables", "a variable named object stands for something else in the converted policy", "rename it")
	}
	spec["variables"] = append([]any{map[string]any{"name": "object", "expression": whole.text}}, variables...)
}

// whole is the object of the request, or the deleted one.
var whole = expr{"request.operation == 'DELETE' ? oldObject : object", bindsTernary}

// assembled returns the policy with this name; it has the namespaced kind if namespaced is set.
func (c *converter) assembled(kind, name string, namespaced bool, spec map[string]any) map[string]any {
	metadata := map[string]any{"name": name}
	if namespaced {
		kind = "Namespaced" + kind
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

// annotations returns the annotations of the policy, except those for classic policies only.
func (c *converter) annotations() map[string]any {
	kept := maps.Clone(c.policy.Annotations)
	delete(kept, autogen.ControllersAnnotation)
	delete(kept, "kubectl.kubernetes.io/last-applied-configuration")
	out := anyMap(kept)
	maps.Copy(out, anyMap(c.marks))
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

// validation converts the validate block of a rule.
func (c *converter) validation(r *kyvernov1.Rule, spec map[string]any) {
	v, path := r.Validation, c.path+".validate"
	switch {
	case v.RawPattern != nil:
		c.existing(v)
		if raw, ok := c.decodePattern(v.RawPattern, path+".pattern"); ok {
			c.trail = trail{known: true}
			c.holds(spec, c.needing(func() expr { return c.pattern(raw, member("object"), path+".pattern").fits }), v.Message, path)
		}
	case v.RawAnyPattern != nil:
		c.existing(v)
		raw, _ := c.decodePattern(v.RawAnyPattern, path+".anyPattern")
		c.trail = trail{known: true}
		c.holds(spec, c.needing(func() expr { return c.anyPattern(raw, member("object"), path+".anyPattern") }), v.Message, path)
	case v.Deny != nil:
		c.existing(v)
		denied := yes
		raw, ok := c.decode(v.Deny.RawAnyAllConditions, path+".deny.conditions")
		if ok && raw != nil {
			denied = c.denied(raw, path+".deny.conditions")
		}
		c.holds(spec, not(denied), v.Message, path)
		c.tell(spec, v.Message, raw, path)
	case v.CEL != nil:
		c.cel(v.CEL, v.Message, spec, path+".cel")
	case v.PodSecurity != nil:
		c.existing(v)
		c.podSecurity(v, spec, path+".podSecurity")
	case len(v.ForEachValidation) > 0:
		c.failing = nil
		c.holds(spec, c.foreach(v.ForEachValidation, path+".foreach"), v.Message, path)
		c.tellOf(spec, v.Message, path)
	case v.Manifests != nil:
		c.refuse(path+".manifests", "signed YAML has no counterpart in CEL", "")
	case v.Assert != nil:
		c.refuse(path+".assert", "assertion trees have no counterpart in CEL", "")
	default:
		c.refuse(path, "the rule does not validate anything", "")
	}
}

// properties converts the properties in reports to audit annotations.
func (c *converter) properties(r *kyvernov1.Rule, spec map[string]any) {
	all, _ := spec["auditAnnotations"].([]any)
	for _, name := range sortedKeys(r.ReportProperties) {
		c.inMessage = true
		parts, ok := c.texts(r.ReportProperties[name], c.path+".reportProperties."+name)
		c.inMessage = false
		if ok {
			if len(parts) == 1 && !isLiteral(parts[0]) {
				parts[0] = "string(" + parts[0] + ")"
			}
			all = append(all, map[string]any{"key": name, "valueExpression": strings.Join(parts, " + ")})
		}
	}
	if len(all) > 0 {
		spec["auditAnnotations"] = all
	}
}

// foreach converts loops: each element of each list must match.
func (c *converter) foreach(loops []kyvernov1.ForEachValidation, path string) expr {
	out := yes
	for i := range loops {
		l, path := &loops[i], fmt.Sprintf("%s[%d]", path, i)
		all, ok := c.search(strings.TrimSpace(l.List), path+".list")
		if !ok {
			continue
		}
		around, placed, of, x := c.element, c.elementPlace, c.elementShape, c.variableOf(all.expr)
		said := "''"
		c.outer = append(c.outer, loop{element: member(x)})
		c.element, c.elementPlace, c.elementShape = member(x), all.itemPlace(), all.elements
		entries := maps.Clone(c.entries)
		c.context(l.Context, path+".context")
		c.trail = trail{known: c.elementPlace != nil, names: c.elementPlace}
		on := c.element
		if l.ElementScope != nil && !*l.ElementScope { // the pattern is about the whole object
			on, c.trail = c.object, trail{known: true}
		}
		fits := yes
		switch {
		case l.RawPattern != nil:
			if raw, ok := c.decodePattern(l.RawPattern, path+".pattern"); ok {
				fits = c.needing(func() expr { return c.pattern(raw, on, path+".pattern").fits })
			}
		case l.RawAnyPattern != nil:
			raw, _ := c.decodePattern(l.RawAnyPattern, path+".anyPattern")
			fits = c.needing(func() expr { return c.anyPattern(raw, on, path+".anyPattern") })
		case l.Deny != nil:
			if raw, ok := c.decode(l.Deny.RawAnyAllConditions, path+".deny.conditions"); ok && raw != nil {
				fits = not(c.denied(raw, path+".deny.conditions"))
				before := c.reasons
				c.inMessage = true
				if told := c.told(raw, path+".deny.conditions"); len(told) > 0 {
					said = strings.Join(told, " + ")
				}
				c.inMessage, c.reasons = false, before
			} else {
				fits = no
			}
		default:
			fits = c.foreach(l.ForEachValidation, path+".foreach")
		}
		if p := l.AnyAllConditions; p != nil {
			fits = or(not(c.surely(func() expr { return c.conditions(document(p), path+".preconditions") })), fits)
		}
		c.element, c.elementPlace, c.elementShape, c.entries = around, placed, of, entries
		c.outer = c.outer[:len(c.outer)-1]
		list := all.orElse("[]")
		out = and(out, list.macro("all", x, fits))
		if len(c.outer) == 0 {
			c.failing = append(c.failing, list.macro("filter", x, not(fits)).macro("map", x, member(said)).text)
			c.telling = c.telling || said != "''"
		} else if said != "''" {
			c.note(path+".deny.conditions", "the messages of single conditions in inner loops are omitted", "write the conditions as separate validations with messages")
		}
	}
	return out
}

// anyPattern converts alternative patterns. The rule is not applicable if none of them is applicable.
func (c *converter) anyPattern(raw any, at expr, path string) expr {
	all, _ := raw.([]any)
	fits, off := no, yes
	for i, one := range all {
		part := c.pattern(one, at, fmt.Sprintf("%s[%d]", path, i))
		fits, off = or(fits, and(part.fits, not(part.off))), and(off, part.off)
	}
	return or(fits, off)
}

// existing exempts objects that violated the policy before, as the classic rule does.
func (c *converter) existing(v *kyvernov1.Validation) {
	if c.tolerant = isOn(v.AllowExistingViolations); c.tolerant && c.enforce(v) {
		c.mark(existingAnnotation, "true")
	}
}

// existingAnnotation has the effect of allowExistingViolations.
const existingAnnotation = celpolicy.AllowExistingAnnotation

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

// decodePattern decodes a pattern, with the values of its references to other places in it.
func (c *converter) decodePattern(raw *apiextensionsv1.JSON, path string) (any, bool) {
	v, ok := c.decode(raw, path)
	if !ok {
		return nil, false
	}
	resolved, err := pattern.ResolveReferences(v)
	if err != nil {
		c.refuse(path, err.Error(), "")
		return nil, false
	}
	return resolved, true
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

// holds adds the single validation of a policy.
func (c *converter) holds(spec map[string]any, e expr, message, path string) {
	validation := map[string]any{"expression": c.conditional(e).text}
	c.message(message, path+".message", validation)
	spec["validations"] = []any{validation}
}

// tell adds the messages of the conditions of deny to that of the rule.
func (c *converter) tell(spec map[string]any, message string, conditions any, path string) {
	before := c.reasons
	c.inMessage = true
	told := c.told(conditions, path+".deny.conditions")
	own, ok := c.texts(message, path+".message")
	c.inMessage = false
	if c.reasons = before; len(told) == 0 || !ok {
		return
	}
	if len(own) == 0 {
		told[0] = strings.ReplaceAll(told[0], "'; ", "'")
	}
	one := spec["validations"].([]any)[0].(map[string]any)
	delete(one, "message")
	one["messageExpression"] = strings.Join(append(own, told...), " + ")
}

// tellOf adds the messages of the conditions of loops to that of the rule: those of the first element that fails.
func (c *converter) tellOf(spec map[string]any, message, path string) {
	before := c.reasons
	own, ok := c.texts(message, path+".message")
	if c.reasons = before; !c.telling || !ok {
		return
	}
	if len(own) == 0 {
		for i := range c.failing {
			c.failing[i] = strings.ReplaceAll(c.failing[i], "'; ", "'")
		}
	}
	first := c.failing[0]
	if len(c.failing) > 1 {
		first = "(" + strings.Join(c.failing, " + ") + ")"
	}
	one := spec["validations"].([]any)[0].(map[string]any)
	delete(one, "message")
	one["messageExpression"] = strings.Join(append(own, first+"[0]"), " + ")
}

// conditional returns a validation that holds where the preconditions do not.
func (c *converter) conditional(e expr) expr {
	if c.unless == (expr{}) || e == yes {
		return e
	}
	return expr{c.unless.within(bindsOr) + " ? " + e.within(bindsOr) + " : true", bindsTernary}
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
	c.inMessage = true
	parts, ok := c.texts(message, path)
	c.inMessage = false
	if ok {
		expression := strings.Join(parts, " + ")
		if len(parts) == 1 && !strings.HasPrefix(expression, "string(") { // of type dyn
			expression = "string(" + expression + ")"
		}
		validation["messageExpression"] = expression
		return
	}
	// A message does not affect the verdict. If it cannot be converted, it stays as it is.
	c.reasons = before
	validation["message"] = message
	c.note(path, "the variables in the message are not converted, and appear literally", "write a messageExpression")
}

// cel converts a rule that is written in CEL.
func (c *converter) cel(v *kyvernov1.CEL, message string, spec map[string]any, path string) {
	params := c.parameters(v, path)
	var validations []any
	for i := range v.Expressions {
		one := params.validation(document(&v.Expressions[i]))
		if c.unless != (expr{}) {
			one["expression"] = c.conditional(expr{one["expression"].(string), bindsTernary}).text
		}
		if v.Expressions[i].Message == "" && v.Expressions[i].MessageExpression == "" && message != "" {
			c.message(message, c.path+".validate.message", one)
		}
		if _, ok := one["reason"]; ok {
			delete(one, "reason")
			c.note(fmt.Sprintf("%s.expressions[%d].reason", path, i), "the reason is omitted", "")
		}
		validations = append(validations, one)
	}
	spec["validations"] = validations
	all := params.variables()
	for i := range v.Variables {
		all = append(all, params.renamed(document(&v.Variables[i]), "expression"))
	}
	if len(all) > 0 {
		spec["variables"] = all
	}
	if len(v.AuditAnnotations) > 0 {
		var all []any
		for i := range v.AuditAnnotations {
			all = append(all, params.renamed(document(&v.AuditAnnotations[i]), "valueExpression"))
		}
		spec["auditAnnotations"] = all
	}
}

// document returns a typed part of a policy as JSON.
func document(v any) map[string]any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of text
	}
	out, err := value.DecodeJSON(raw)
	if err != nil {
		panic(err)
	}
	return out.(map[string]any)
}
