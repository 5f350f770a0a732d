package webhookconf

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ephor-dev/ephor/internal/policy"
)

// resource gives the resource webhooks of one side, by name; one whose rules name nothing is left out.
func (b *builder) resource(s *side) []webhook {
	out := []webhook{}
	for _, h := range s.hooks {
		if h.incomplete && b.Stored != nil {
			h.keep(b.Stored(configurationOf(s), h.name))
		}
		w := b.webhook(h.name, h.path)
		if w.Rules = h.rules.rules(); len(w.Rules) == 0 {
			continue
		}
		if h.failurePolicy == policy.Ignore {
			w.FailurePolicy = admissionv1.Ignore
		}
		w.TimeoutSeconds = min(h.timeout, MaxTimeoutSeconds)
		w.NamespaceSelector = b.namespaceSelector()
		if sel := b.Settings.Webhook.ObjectSelector; sel != nil {
			w.ObjectSelector = sel.DeepCopy()
		}
		w.SideEffects = admissionv1.SideEffectClassNoneOnDryRun
		if s == &b.val && !b.Options.AdmissionReports {
			w.SideEffects = admissionv1.SideEffectClassNone
		}
		w.MatchConditions = b.conditions(h)
		w.fine = h.fine
		out = append(out, w)
	}
	slices.SortFunc(out, byName)
	return out
}

func byName(x, y webhook) int { return strings.Compare(x.Name, y.Name) }

func configurationOf(s *side) string {
	if s.base == "mutate" {
		return ResourceMutating
	}
	return ResourceValidating
}

// keep unites the rules with those that are stored.
func (h *hook) keep(stored []admissionv1.RuleWithOperations) {
	kept := ruleSet{}
	kept.keep(stored)
	for p, ops := range kept {
		if p.resource == "*" {
			h.wild = true
		} else {
			h.named.add(p)
		}
		h.rules.put(p, ops)
	}
}

// The condition of --excludeBootstrapResources, with Kyverno's name.
const (
	bootstrapCondition  = "kyverno-exclude-bootstrap-resources"
	bootstrapExpression = `!(request.resource.group == "" && request.resource.resource == "nodes" || ` +
		`request.resource.group == "certificates.k8s.io" && request.resource.resource == "certificatesigningrequests")`
)

// maxConditions is how many match conditions the API server takes for one webhook.
const maxConditions = 64

// conditions are those of the policy or else of the ConfigMap, and then ours.
func (b *builder) conditions(h *hook) []admissionv1.MatchCondition {
	var out []admissionv1.MatchCondition
	if h.fine { // the policy's conditions replace the global ones
		for _, c := range h.conditions {
			out = append(out, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
		}
	} else {
		out = b.globalConditions()
	}
	var ours []admissionv1.MatchCondition
	if b.Options.ExcludeBootstrap && h.failurePolicy == policy.Fail {
		ours = append(ours, admissionv1.MatchCondition{Name: bootstrapCondition, Expression: bootstrapExpression})
	}
	if h.wild {
		ours = append(ours, admissionv1.MatchCondition{Name: ReservedCondition, Expression: h.named.condition()})
	}
	// Whoever writes conditions says when to be asked.
	if b.Options.Derive && !h.fine {
		if x, ok := h.derived.expression(h.rules.operations(), b.Options.Protects); ok {
			ours = append(ours, admissionv1.MatchCondition{Name: DerivedCondition, Expression: x})
		}
	}
	for _, c := range ours {
		if len(out) < maxConditions && !slices.ContainsFunc(out, func(have admissionv1.MatchCondition) bool { return have.Name == c.Name }) {
			out = append(out, c)
		}
	}
	return out
}

// globalConditions are the match conditions of the ConfigMap.
func (b *builder) globalConditions() (out []admissionv1.MatchCondition) {
	for _, c := range b.Settings.Webhook.MatchConditions {
		out = append(out, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	return out
}

// namespaceName is the label that the API server gives every namespace.
const namespaceName = "kubernetes.io/metadata.name"

// namespaceSelector is that of the ConfigMap. Without one kube-system is left out; our own namespace always is, since a
// webhook in front of it could keep us from coming back.
func (b *builder) namespaceSelector() *metav1.LabelSelector {
	sel := &metav1.LabelSelector{}
	if given := b.Settings.Webhook.NamespaceSelector; given != nil {
		sel = given.DeepCopy()
	} else {
		leaveOut(sel, metav1.NamespaceSystem)
	}
	leaveOut(sel, b.Options.Namespace)
	return sel
}

// leaveOut makes the selector not select the namespace, in the form that the chart writes.
func leaveOut(sel *metav1.LabelSelector, namespace string) {
	for _, e := range sel.MatchExpressions {
		if e.Key == namespaceName && e.Operator == metav1.LabelSelectorOpNotIn && slices.Contains(e.Values, namespace) {
			return
		}
	}
	sel.MatchExpressions = append(sel.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: namespaceName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{namespace},
	})
}

// maxSize bounds the JSON of the webhooks in one configuration. etcd takes 1.5 MiB, of which the list of managed fields
// may need as much as the webhooks themselves.
const maxSize = 512 << 10

// parts divides webhooks among configurations so that each can be stored: a thousand policies with match conditions are
// a thousand webhooks. The shared webhooks come first. There is always one part.
func parts(hooks []webhook) [][]webhook {
	var out [][]webhook
	size := 0
	for _, fine := range []bool{false, true} {
		for _, w := range hooks {
			if w.fine != fine {
				continue
			}
			text, _ := json.Marshal(w)
			if size += len(text); len(out) == 0 || size > maxSize {
				out, size = append(out, nil), len(text)
			}
			last := &out[len(out)-1]
			*last = append(*last, w)
		}
	}
	if len(out) == 0 {
		return [][]webhook{nil}
	}
	for _, part := range out {
		slices.SortFunc(part, byName)
	}
	return out
}

// partName is the name of the configuration for a part.
func partName(base string, i int) string {
	if i == 0 {
		return base
	}
	return base + "-" + strconv.Itoa(i+1)
}
