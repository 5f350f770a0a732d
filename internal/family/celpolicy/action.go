package celpolicy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
)

// Actions returns the effects of a failure at admission; without any action it denies.
func Actions(list []admissionregistrationv1.ValidationAction) (out policy.Action) {
	effects := map[admissionregistrationv1.ValidationAction]policy.Action{
		admissionregistrationv1.Deny: policy.Deny, admissionregistrationv1.Audit: policy.Audit, admissionregistrationv1.Warn: policy.Warn,
	}
	for _, a := range list {
		out |= effects[a]
	}
	if len(list) == 0 {
		return policy.Deny
	}
	return out
}

// ActionsAnnotation on a cluster-wide policy holds its actions in some namespaces, in place of spec.validationActions: a JSON list of objects with
// actions, namespaces (with wildcards) and a namespaceSelector. The first one that selects the namespace counts.
const ActionsAnnotation = names.Domain + "actions"

// actionsIn are the actions in some namespaces.
type actionsIn struct {
	Actions           []admissionregistrationv1.ValidationAction `json:"actions"`
	Namespaces        []string                                   `json:"namespaces"`
	NamespaceSelector *metav1.LabelSelector                      `json:"namespaceSelector"`
}

// SetActions sets what a failure of the rule means, by spec.validationActions and ActionsAnnotation.
func SetActions(rule *policy.Rule, p *policy.Program, c *celrule.Compiler, list []admissionregistrationv1.ValidationAction, path string) {
	CheckActions(c, list, path)
	rule.Action.Default = Actions(list)
	text, set := p.Annotations[ActionsAnnotation]
	if !set {
		return
	}
	const at = "metadata.annotations[" + ActionsAnnotation + "]"
	wrong := func(format string, args ...any) { c.Diags.Invalid(at, text, fmt.Sprintf(format, args...)) }
	if p.Namespace != "" {
		wrong("only a cluster-wide policy has actions for some namespaces")
		return
	}
	var all []actionsIn
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields() // a misspelt restriction would apply everywhere
	if err := d.Decode(&all); err != nil {
		wrong("must be a JSON list of objects with actions, namespaces and namespaceSelector: %v", err)
		return
	}
	for i, in := range all {
		o := policy.ActionOverride{Action: Actions(in.Actions), Namespaces: in.Namespaces}
		for _, a := range in.Actions {
			if Actions([]admissionregistrationv1.ValidationAction{a}) == 0 {
				wrong("item %d: there is no action %q", i, a)
			}
		}
		switch {
		case len(in.Actions) == 0:
			wrong("item %d has no actions", i)
		case len(in.Namespaces) == 0 && in.NamespaceSelector == nil:
			wrong("item %d selects no namespaces: change spec.validationActions for all", i)
		}
		if in.NamespaceSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(in.NamespaceSelector)
			if err != nil {
				wrong("item %d: %v", i, err)
				continue
			}
			o.Selector = func(m map[string]string) bool { return selector.Matches(labels.Set(m)) }
			rule.Needs.NamespaceLabels = true
		}
		rule.Action.Overrides = append(rule.Action.Overrides, o)
	}
	if c.Diags.HasErrors() {
		rule.Action.Overrides = nil // a mistake does not make the policy milder
	}
}

// CheckActions reports unknown actions.
func CheckActions(c *celrule.Compiler, list []admissionregistrationv1.ValidationAction, path string) {
	allowed := []string{string(admissionregistrationv1.Deny), string(admissionregistrationv1.Audit), string(admissionregistrationv1.Warn)}
	for i, a := range list {
		if !slices.Contains(allowed, string(a)) {
			c.Diags.Unsupported(fmt.Sprintf("%s.validationActions[%d]", path, i), string(a), allowed)
		}
	}
}
