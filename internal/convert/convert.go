package convert

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/family/cleanup"
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
	position     expr     // the index of the element in its list; zero if unknown
	outer        []loop   // the enclosing loops
	once         []string // operations that create what all iterations of the loops of a rule change
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
	// apart are the rules for subresources of Pods that need a policy of their own.
	apart []any
	// extracted is the list of the images that imageExtractors find; zero without them.
	extracted expr
	// predicate is the content of an attestation, whose fields are variables of its conditions; zero elsewhere.
	predicate expr
	image     bool // the variable image is the image that is verified
	// failing are the lists of the messages of the elements that fail, one for each loop; telling: some of them have messages.
	failing []string
	telling bool
	// deletions: the rule is about deletions only.
	deletions bool
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
	c.subresources(r, spec)
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
	if c.deletions {
		deletedObject(spec)
	}
	if c.object.text != subject || !strings.Contains(value.JSON(spec), subject) {
		return
	}
	variables, _ := spec["variables"].([]any)
	if v := r.Validation; v != nil && v.CEL != nil && slices.ContainsFunc(v.CEL.Variables, func(v admissionregistrationv1.Variable) bool { return v.Name == "object" }) {
		c.refuse(c.path+".validate.cel.variables", "a variable named object stands for something else in the converted policy", "rename it")
	}
	spec["variables"] = append([]any{map[string]any{"name": "object", "expression": whole.text}}, variables...)
}

// deletedObject writes oldObject for the object of the request in all expressions of a part of a policy about deletions.
func deletedObject(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = deletedObject(e)
		}
	case []any:
		for i, e := range v {
			v[i] = deletedObject(e)
		}
	case string:
		return strings.ReplaceAll(v, subject, deleted.text)
	}
	return v
}

// deleted is the object of the request of a deletion.
var deleted = member("oldObject")

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

// existingAnnotation has the effect of allowExistingViolations.
const existingAnnotation = celpolicy.AllowExistingAnnotation

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
