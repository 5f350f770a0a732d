package classic

import (
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/diag"
)

// Check returns all mistakes that concern a policy as a whole. Compile reports mistakes inside a match block, a context entry, a
// pattern or a condition. Warnings do not make a policy invalid.
func Check(p *kyvernov1.ClusterPolicy) diag.List {
	c := &checker{policy: p, spec: &p.Spec, background: background(&p.Spec)}
	c.names()
	c.enums()
	c.webhook()
	c.switches()
	c.overrides()
	c.annotations()
	for i := range p.Spec.Rules {
		r := &p.Spec.Rules[i]
		c.rule(r, "spec.rules["+strconv.Itoa(i)+"]", i)
	}
	return c.diags
}

type checker struct {
	policy     *kyvernov1.ClusterPolicy
	spec       *kyvernov1.Spec
	background bool
	diags      diag.List
}

// rule checks one rule against the rest of the policy.
func (c *checker) rule(r *kyvernov1.Rule, path string, index int) {
	c.ruleEnums(r, path)
	c.matchAgainstRule(r, path)
	if c.background {
		c.backgroundMatch(r, path, index)
	}
	c.contexts(r, path)
	c.variables(r, path)
	c.validation(r, path)
}

// maxRuleName is the maximum length of a rule name.
const maxRuleName = 63

func (c *checker) names() {
	if !namespaced(c.policy) && c.policy.Namespace != "" {
		c.diags.Errorf("metadata.namespace", "A clusterpolicy should not have the namespace defined")
		c.diags.Hint("remove the namespace, or write a Policy")
	}
	if c.policy.Name == "" {
		c.diags.Required("metadata.name", "a policy needs a name")
		c.diags.Hint("add metadata.name, such as require-team")
	}
	if len(c.spec.Rules) == 0 {
		c.diags.Warnf("spec.rules", "the policy has no rules")
		c.diags.Hint("add rules under spec.rules, each with name, match and one of validate, mutate, generate and verifyImages")
	}
	seen := map[string]bool{}
	for i := range c.spec.Rules {
		name := c.spec.Rules[i].Name
		path := "spec.rules[" + strconv.Itoa(i) + "].name"
		switch {
		case name == "":
			c.diags.Required(path, "a rule needs a name")
			c.diags.Hint("add a name, such as label-team: results are reported by it")
			continue
		case len(name) > maxRuleName:
			c.diags.TooLong(path, maxRuleName)
			c.diags.Hint("shorten the name")
		}
		if seen[name] {
			c.diags.Errorf(path, "Duplicate rule name: '%s'", name)
			c.diags.Hint("results are reported by rule name; give each rule its own")
		}
		seen[name] = true
	}
}

func (c *checker) webhook() {
	s, w := c.spec, c.spec.WebhookConfiguration
	timeoutRange := func(t *int32, path string) {
		if t != nil && (*t < 1 || *t > 30) {
			c.diags.Errorf(path, "the timeout value must be between 1 and 30 seconds")
			c.diags.Hint("write a number from 1 to 30, or remove the field: the default is 10")
		}
	}
	timeoutRange(s.WebhookTimeoutSeconds, "spec.webhookTimeoutSeconds")
	if w == nil {
		return
	}
	timeoutRange(w.TimeoutSeconds, "spec.webhookConfiguration.timeoutSeconds")
	if s.WebhookTimeoutSeconds != nil && w.TimeoutSeconds != nil {
		c.diags.Errorf("spec.webhookTimeoutSeconds", "remove the deprecated field and use spec.webhookConfiguration.timeoutSeconds instead")
		c.diags.Hint("both are set: keep spec.webhookConfiguration.timeoutSeconds")
	}
	if s.FailurePolicy != nil && w.FailurePolicy != nil {
		c.diags.Errorf("spec.failurePolicy", "remove the deprecated field and use spec.webhookConfiguration.failurePolicy instead")
		c.diags.Hint("both are set: keep spec.webhookConfiguration.failurePolicy")
	}
}

// switches checks the fields that enable or disable admission, background and autogen.
func (c *checker) switches() {
	s := c.spec
	if s.GenerateExistingOnPolicyUpdate != nil {
		c.diags.Errorf("spec.generateExistingOnPolicyUpdate", "remove the deprecated field and use spec.generate[*].generateExisting instead")
		c.diags.Hint("set generate.generateExisting in each rule that is to make objects for existing resources")
	}
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Mutation != nil && len(r.Mutation.Targets) == 0 && wantsPolicyChange(s, r) {
			c.diags.Forbidden("spec.mutateExistingOnPolicyUpdate",
				"rules["+strconv.Itoa(i)+"].mutate.targets has to be specified when mutateExistingOnPolicyUpdate is set")
			c.diags.Hint("name the targets of rule %s, or set its mutate.mutateExistingOnPolicyUpdate to false", r.Name)
		}
	}
	if s.Admission == nil || *s.Admission {
		return
	}
	if !c.background {
		c.diags.Errorf("spec.admission", "disabling both admission and background processing is not allowed")
		c.diags.Hint("remove spec.admission, or set spec.background to true: otherwise nothing evaluates the policy")
	}
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Mutation != nil || r.Generation != nil || len(r.VerifyImages) > 0 {
			c.diags.Errorf("spec.admission", "disabling admission processing is only allowed with validation policies")
			c.diags.Hint("rule %s is not a validate rule", r.Name)
			return
		}
	}
}

func (c *checker) annotations() {
	value, ok := c.policy.Annotations[autogen.ControllersAnnotation]
	if !ok || value == "none" {
		return
	}
	path := "metadata.annotations." + autogen.ControllersAnnotation
	for _, name := range strings.Split(value, ",") {
		switch {
		case name == "all":
			c.diags.Errorf(path, "Autogen annotation does not support 'all' anymore, remove the annotation or set it to a valid value")
			c.diags.Hint("controllers are %s", strings.Join(autogen.Controllers(), ", "))
		case value != "" && !autogen.IsController(name):
			c.diags.Warnf(path, "autogen knows no controller %q; the name is ignored", name)
			c.diags.Hint("controllers are %s", strings.Join(autogen.Controllers(), ", "))
			if trimmed := strings.TrimSpace(name); autogen.IsController(trimmed) {
				c.diags.Hint("write %s without blanks around it", trimmed)
			}
		}
	}
}
