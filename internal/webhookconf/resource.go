package webhookconf

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ephor-dev/ephor/internal/policy"
)

// resource gives the resource webhooks of one side by the configuration that they belong to, each list by name. A webhook
// whose rules name nothing is left out, and so is our own configuration when it is empty.
func (b *builder) resource(s *side) map[string][]webhook {
	shared, extra := []webhook{}, []webhook{}
	for _, h := range s.hooks {
		h.keepAll(b.Stored, configurationOf(s))
		h.setApart()
		w := b.resourceWebhook(s, h)
		if w.Rules = h.all().rules(); len(w.Rules) > 0 {
			w.MatchConditions = b.conditions(h)
			shared = append(shared, w)
		}
		if s == &b.mut {
			extra = append(extra, b.nameless(s, h)...)
		}
		extra = append(extra, b.resizing(s, h)...)
		extra = append(extra, b.versions(s, h)...)
	}
	shared = append(shared, b.grouped(s)...)
	out := map[string][]webhook{configurationOf(s): shared}
	if len(extra) > 0 {
		out[extraOf(s)] = extra
	}
	for _, hooks := range out {
		distinguish(hooks)
		slices.SortFunc(hooks, byName)
	}
	return out
}

// resourceWebhook is a resource webhook without its rules and conditions.
func (b *builder) resourceWebhook(s *side, h *hook) webhook {
	w := b.webhook(h.name, h.path)
	if h.failurePolicy == policy.Ignore {
		w.FailurePolicy = admissionv1.Ignore
	}
	w.TimeoutSeconds = min(h.timeout, MaxTimeoutSeconds)
	w.NamespaceSelector = b.namespaceSelector()
	if h.namespace != "" {
		w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: namespaceName, Operator: metav1.LabelSelectorOpIn, Values: []string{h.namespace},
		})
	}
	if sel := b.Settings.Webhook.ObjectSelector; sel != nil {
		w.ObjectSelector = sel.DeepCopy()
	}
	w.SideEffects = admissionv1.SideEffectClassNoneOnDryRun
	if s == &b.val && !b.Options.AdmissionReports {
		w.SideEffects = admissionv1.SideEffectClassNone
	}
	w.fine, w.path = h.fine, h.path
	return w
}

// all are the rules of the webhook: what all of its policies ask for.
func (h *hook) all() ruleSet {
	sets := []ruleSet{h.rules}
	for _, s := range h.spaces {
		sets = append(sets, s.rules)
	}
	return united(sets...)
}

// maxName is the longest name of a webhook.
const maxName = validation.DNS1123SubdomainMaxLength

// distinguish changes the names of webhooks that the API server would refuse, and with them all others: those that are too
// long, and those that two policies share (cluster-wide `a-b`, and `b` in namespace `a`).
func distinguish(hooks []webhook) {
	count := map[string]int{}
	for _, w := range hooks {
		count[w.Name]++
	}
	for i := range hooks {
		w := &hooks[i]
		if count[w.Name] == 1 && len(w.Name) <= maxName {
			continue
		}
		sum := sha256.Sum256([]byte(w.path))
		suffix := "-" + hex.EncodeToString(sum[:4])
		w.Name = strings.TrimRight(w.Name[:min(len(w.Name), maxName-len(suffix))], "-.") + suffix
	}
}

func byName(x, y webhook) int { return strings.Compare(x.Name, y.Name) }

func configurationOf(s *side) string {
	if s.mutating {
		return ResourceMutating
	}
	return ResourceValidating
}

func extraOf(s *side) string {
	if s.mutating {
		return ExtraMutating
	}
	return ExtraValidating
}

// keepAll unites the rules of shares of which not all is known with those that are stored. Where only namespaced policies
// are concerned, what is stored is kept for their namespaces.
func (h *hook) keepAll(stored func(configuration, webhook string) []admissionv1.RuleWithOperations, configuration string) {
	if stored == nil {
		return
	}
	if h.incomplete {
		h.keep(stored(configuration, h.name), false)
		return
	}
	for _, s := range h.spaces {
		if s.incomplete {
			s.keep(stored(configuration, h.name), true)
		}
	}
}

func (s *share) keep(stored []admissionv1.RuleWithOperations, namespaced bool) {
	kept := ruleSet{}
	kept.keep(stored)
	for p, ops := range kept {
		switch {
		case namespaced && p.resource == "*":
			p.scope = string(admissionv1.NamespacedScope)
		case namespaced && p.scope != string(admissionv1.NamespacedScope):
			continue
		}
		if p.resource == "*" {
			s.wild = true
		} else {
			s.named.add(p)
		}
		s.rules.put(p, ops)
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
	out := b.givenConditions(h)
	if x, ok := h.reserved(); ok {
		out = withCondition(out, ReservedCondition, x)
	}
	if x, ok := h.confined(); ok {
		out = withCondition(out, ConfinedCondition, x)
	}
	return b.withDerived(out, h, h.all().operations())
}

// givenConditions are the conditions that users wrote, or a flag requested.
func (b *builder) givenConditions(h *hook) []admissionv1.MatchCondition {
	var out []admissionv1.MatchCondition
	if h.authored { // the policy's conditions replace the global ones
		for _, c := range h.conditions {
			if !takes(out, c.Name) {
				continue // stored past our review; one that is refused would keep all webhooks from being written
			}
			out = append(out, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
		}
	} else {
		out = b.globalConditions()
	}
	if b.Options.ExcludeBootstrap && h.failurePolicy == policy.Fail && takes(out, bootstrapCondition) {
		out = append(out, admissionv1.MatchCondition{Name: bootstrapCondition, Expression: bootstrapExpression})
	}
	return out
}

// withDerived adds the condition that follows from the policies, for a webhook that is asked for the operations.
func (b *builder) withDerived(out []admissionv1.MatchCondition, h *hook, asked operations) []admissionv1.MatchCondition {
	// An author of conditions decides which requests are sent.
	if b.Options.Derive && !h.authored && takes(out, DerivedCondition) {
		if x, ok := h.derive(asked, b.Options.Protects); ok {
			out = append(out, admissionv1.MatchCondition{Name: DerivedCondition, Expression: x})
		}
	}
	return out
}

// withCondition adds a condition that may not be missing. Where the API server takes no more, or the name is taken, it
// becomes a part of the last one.
func withCondition(have []admissionv1.MatchCondition, name, expression string) []admissionv1.MatchCondition {
	if takes(have, name) {
		return append(have, admissionv1.MatchCondition{Name: name, Expression: expression})
	}
	last := &have[len(have)-1]
	last.Expression = "(" + expression + ") && (" + last.Expression + ")"
	return have
}

// takes reports whether the API server takes one more condition of that name.
func takes(have []admissionv1.MatchCondition, name string) bool {
	return len(have) < maxConditions && len(validation.IsQualifiedName(name)) == 0 &&
		!slices.ContainsFunc(have, func(c admissionv1.MatchCondition) bool { return c.Name == name })
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
