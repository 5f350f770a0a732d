package celpolicy

import (
	"cmp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/policy"
)

// Endpoint returns an endpoint for each of the two kinds; the cluster-wide one is first. The name and path of the second begin with n.
func Endpoint(at policy.Endpoint) []policy.Endpoint {
	at.ByName, at.Once = true, true
	namespaced := at
	namespaced.Kinds = nil
	for _, k := range at.Kinds {
		namespaced.Kinds = append(namespaced.Kinds, NamespacedPrefix+k)
	}
	namespaced.Name, namespaced.Path = "n"+at.Name, "/n"+strings.TrimPrefix(at.Path, "/")
	return []policy.Endpoint{at, namespaced}
}

// WebhookInput holds the parts of a policy that determine its webhook.
type WebhookInput struct {
	// At are the endpoints of the family; one of them has the kind of the policy.
	At          []policy.Endpoint
	Constraints *admissionregistrationv1.MatchResources
	Conditions  []admissionregistrationv1.MatchCondition
	// Configs are the policies that are generated for controllers of Pods; Rewritten returns their conditions.
	Configs   []Config
	Rewritten func(Config) []admissionregistrationv1.MatchCondition
	// Always: the webhook receives requests of all operations for the resources. Updates: the conditions filter only requests that create
	// objects, since after an update an object may no longer be a trigger.
	Always, Updates bool
	// Subresources: the policy also selects the subresources that change the containers of Pods (Input.Subresources).
	Subresources bool
	// Converts: requests for other versions are converted even with matchPolicy Exact; the rules leave them out themselves.
	Converts bool
}

// Webhooks returns the webhook of the policy, and one in our own configuration for the subresources of Pods that the policy does not
// list.
func Webhooks(p *policy.Program, in WebhookInput) []policy.Webhook {
	out := []policy.Webhook{Webhook(p, in)}
	if m, _ := forSubresources(in.Constraints, p.Annotations); m != nil && in.Subresources {
		w := Webhook(p, WebhookInput{At: in.At, Constraints: m, Conditions: in.Conditions})
		w.Extra = true
		out = append(out, w)
	}
	return out
}

// Webhook returns the webhook of the policy. The policy gets a webhook of its own if it has a timeout, disables version
// conversion, or has conditions that the API server can evaluate.
func Webhook(p *policy.Program, in WebhookInput) policy.Webhook {
	at := &in.At[slices.IndexFunc(in.At, func(e policy.Endpoint) bool { return slices.Contains(e.Kinds, p.Kind) })]
	sel := &policy.WebhookSelection{TimeoutSeconds: p.Settings.TimeoutSeconds}
	exact := Exact(in.Constraints)
	sel.Exact = exact && !in.Converts
	if m := in.Constraints; m != nil {
		sel.NamespaceSelector, sel.ObjectSelector = m.NamespaceSelector, m.ObjectSelector
		for _, m := range slices.Concat([]*admissionregistrationv1.MatchResources{m}, constraintsOf(in.Configs)) {
			for _, r := range m.ResourceRules {
				rule := *r.RuleWithOperations.DeepCopy()
				if in.Always {
					rule.Operations = slices.Clone(everyOperation)
				}
				sel.Rules = append(sel.Rules, rule)
			}
		}
	}
	w := policy.Webhook{Endpoint: at, Selection: sel}
	conditions, send := sendable(in.Conditions)
	switch {
	case send:
		w.Own = policy.OwnConditions
		w.Conditions = in.wrapped(conditions, sel.Rules)
	case exact:
		w.Own = policy.OwnMatchPolicy
	case sel.TimeoutSeconds > 0:
		w.Own = policy.OwnTimeout
	}
	return w
}

// Exact reports whether constraints refuse requests for other versions of their resources.
func Exact(m *admissionregistrationv1.MatchResources) bool {
	return m != nil && m.MatchPolicy != nil && *m.MatchPolicy == admissionregistrationv1.Exact
}

var everyOperation = []admissionregistrationv1.OperationType{
	admissionregistrationv1.Connect, admissionregistrationv1.Create, admissionregistrationv1.Delete, admissionregistrationv1.Update,
}

func constraintsOf(configs []Config) (out []*admissionregistrationv1.MatchResources) {
	for i := range configs {
		out = append(out, configs[i].Constraints)
	}
	return out
}

// sendable returns the conditions that the API server can evaluate in a webhook. ok is false if there are none, or if one of them needs
// more than the webhook environment; then no condition is sent. The namespace is not available in that environment, so conditions that
// read it are left out.
func sendable(in []admissionregistrationv1.MatchCondition) (out []admissionregistrationv1.MatchCondition, ok bool) {
	for _, m := range in {
		c := celrule.New(env.Declarations{Kind: env.Native}, nil)
		c.Conditions([]admissionregistrationv1.MatchCondition{m}, "")
		if c.Diags.HasErrors() {
			return nil, false
		}
		if !c.ReadsNamespace() {
			out = append(out, m)
		}
	}
	return out, len(in) > 0
}

// wrapped returns the conditions of the webhook, sorted by name. If there are generated policies, each condition is limited to the kinds of
// its policy. A condition is not sent for operations without an object, because their kind cannot be read.
func (in *WebhookInput) wrapped(conditions []admissionregistrationv1.MatchCondition, rules []admissionregistrationv1.RuleWithOperations) (out []policy.MatchCondition) {
	add := func(prefix, expression string, c admissionregistrationv1.MatchCondition) {
		if prefix != "" {
			expression += " || " + typecheck.Group(c.Expression)
		} else {
			expression = c.Expression
		}
		if in.Updates {
			expression = "request.operation != 'CREATE' || " + typecheck.Group(expression)
		}
		out = append(out, policy.MatchCondition{Name: prefix + c.Name, Expression: expression})
	}
	if len(in.Configs) == 0 {
		for _, c := range conditions {
			add("", "", c)
		}
		return out
	}
	if withoutObject(rules) {
		return nil
	}
	names := map[string]bool{}
	for _, c := range conditions {
		names[c.Name] = true
		add("autogen-", unless(kindText{"v1", "Pod"}), c)
	}
	for _, config := range in.Configs {
		if config.Template == "" {
			continue
		}
		var kinds []kindText
		for _, t := range config.Targets {
			kinds = append(kinds, kindText{t.Group + "/" + t.Version, t.Kind})
		}
		for _, c := range in.Rewritten(config) {
			if names[c.Name] { // all other conditions are not sent
				add("autogen-"+config.Key+"-", unless(kinds...), c)
			}
		}
	}
	slices.SortFunc(out, func(a, b policy.MatchCondition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func withoutObject(rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return slices.ContainsFunc(r.Operations, func(o admissionregistrationv1.OperationType) bool {
			return o != admissionregistrationv1.Create && o != admissionregistrationv1.Update
		})
	})
}

type kindText struct{ version, kind string }

// unless returns an expression that is true for objects of all other kinds, in the form that Kyverno writes.
func unless(kinds ...kindText) string {
	var terms []string
	for _, k := range kinds {
		terms = append(terms, "(object.apiVersion == '"+k.version+"' && object.kind =='"+k.kind+"')")
	}
	return "!(" + strings.Join(terms, " || ") + ")"
}
