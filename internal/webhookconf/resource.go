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

	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/policy"
)

// resource returns the resource webhooks of one phase by configuration, each list sorted by name. It omits webhooks without rules, and our
// own configuration if it is empty.
func (b *builder) resource(s *phase) map[string][]webhook {
	shared, extra := []webhook{}, []webhook{}
	for _, h := range s.drafts {
		h.keepStored(b.Stored, configurationOf(s))
		h.separateVersions()
		w := b.resourceWebhook(s, h)
		if w.Rules = h.all().Rules(); len(w.Rules) > 0 {
			w.MatchConditions = b.conditions(h)
			shared = append(shared, w)
		}
		if s.mutating && h.rules.On(namespaces)[policy.Create] {
			for _, w := range b.nameless(b.resourceWebhook(s, h), b.ownConditions(h)) {
				w.MatchConditions = b.withDerived(w.MatchConditions, h, coverage.OperationsOf(policy.Create))
				extra = append(extra, w)
			}
		}
		extra = append(extra, b.resizing(s, h)...)
		extra = append(extra, b.versions(s, h)...)
	}
	var namespaced []webhook
	for _, own := range []bool{false, true} {
		for _, w := range b.grouped(s, own) {
			if s.mutating && !w.namespaced && created(w.Rules) {
				extra = append(extra, b.nameless(w, w.MatchConditions)...)
			}
			switch {
			case w.namespaced:
				namespaced = append(namespaced, w)
			case own:
				extra = append(extra, w)
			default:
				shared = append(shared, w)
			}
		}
	}
	out := map[string][]webhook{configurationOf(s): shared}
	if len(extra) > 0 {
		out[extraOf(s)] = extra
	}
	if len(namespaced) > 0 {
		out[namespacedOf(s)] = namespaced
	}
	for _, webhooks := range out {
		makeNamesUnique(webhooks)
		slices.SortFunc(webhooks, byName)
	}
	return out
}

// resourceWebhook returns a resource webhook without its rules and conditions.
func (b *builder) resourceWebhook(s *phase, h *draft) webhook {
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
	w.fine, w.path, w.programs = h.fine, h.path, h.programs
	return w
}

// all returns the rules of the webhook for all its policies.
func (h *draft) all() coverage.Set {
	sets := []coverage.Set{h.rules}
	for _, s := range h.namespaces {
		sets = append(sets, s.rules)
	}
	return coverage.Union(sets...)
}

// maxName is the maximum length of the name of a webhook.
const maxName = validation.DNS1123SubdomainMaxLength

// makeNamesUnique changes the names of webhooks for which the API server would reject the whole configuration: names that are too long, and
// names that two policies share (cluster-wide `a-b`, and `b` in namespace `a`).
func makeNamesUnique(webhooks []webhook) {
	count := map[string]int{}
	for _, w := range webhooks {
		count[w.Name]++
	}
	for i := range webhooks {
		w := &webhooks[i]
		if count[w.Name] == 1 && len(w.Name) <= maxName {
			continue
		}
		sum := sha256.Sum256([]byte(w.path))
		suffix := "-" + hex.EncodeToString(sum[:4])
		w.Name = strings.TrimRight(w.Name[:min(len(w.Name), maxName-len(suffix))], "-.") + suffix
	}
}

func byName(x, y webhook) int { return strings.Compare(x.Name, y.Name) }

func configurationOf(s *phase) string {
	if s.mutating {
		return ResourceMutating
	}
	return ResourceValidating
}

func extraOf(s *phase) string {
	if s.mutating {
		return ExtraMutating
	}
	return ExtraValidating
}

func namespacedOf(s *phase) string {
	if s.mutating {
		return NamespacedMutating
	}
	return NamespacedValidating
}

// keepStored adds the stored rules to what is incomplete. If only namespaced policies are incomplete, it keeps the stored rules for
// their namespaces.
func (h *draft) keepStored(stored func(configuration, webhook string) []admissionv1.RuleWithOperations, configuration string) {
	if stored == nil {
		return
	}
	if h.incomplete {
		h.addStored(stored(configuration, h.name), false)
		return
	}
	for _, s := range h.namespaces {
		if s.incomplete {
			s.addStored(stored(configuration, h.name), true)
		}
	}
}

func (s *policyCoverage) addStored(stored []admissionv1.RuleWithOperations, namespaced bool) {
	kept := coverage.Set{}
	kept.AddRules(stored)
	for p, ops := range kept {
		switch {
		case namespaced && p.Name == "*":
			p.Scope = admissionv1.NamespacedScope
		case namespaced && p.Scope != admissionv1.NamespacedScope:
			continue
		}
		if p.Name == "*" {
			s.wild = true
		} else {
			s.named.add(p)
		}
		s.rules.Add(ops, p)
	}
}

// The condition of --excludeBootstrapResources, which has Kyverno's name.
const (
	bootstrapCondition  = "kyverno-exclude-bootstrap-resources"
	bootstrapExpression = `!(request.resource.group == "" && request.resource.resource == "nodes" || ` +
		`request.resource.group == "certificates.k8s.io" && request.resource.resource == "certificatesigningrequests")`
)

// maxConditions is the maximum number of match conditions that the API server accepts for one webhook.
const maxConditions = 64

// conditions returns the conditions of the policy, or else those of the ConfigMap, followed by our own conditions.
func (b *builder) conditions(h *draft) []admissionv1.MatchCondition {
	out := b.ownConditions(h)
	if x, ok := h.reserved(); ok {
		out = withCondition(out, ReservedCondition, x)
	}
	if x, ok := h.confined(); ok {
		out = withCondition(out, ConfinedCondition, x)
	}
	return b.withDerived(out, h, h.all().Operations())
}

// ownConditions returns the conditions that users wrote and those that a flag requires.
func (b *builder) ownConditions(h *draft) []admissionv1.MatchCondition {
	var out []admissionv1.MatchCondition
	if h.authored { // the policy's conditions replace the global ones
		for _, c := range h.conditions {
			if !hasRoomFor(out, c.Name) {
				continue // stored without our review: if the API server rejected it, no webhook could be written
			}
			out = append(out, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
		}
	} else {
		out = b.globalConditions()
	}
	if b.Options.ExcludeBootstrap && h.failurePolicy == policy.Fail && hasRoomFor(out, bootstrapCondition) {
		out = append(out, admissionv1.MatchCondition{Name: bootstrapCondition, Expression: bootstrapExpression})
	}
	return out
}

// withDerived adds the condition that is derived from the policies, for a webhook that is called for the operations.
func (b *builder) withDerived(out []admissionv1.MatchCondition, h *draft, asked coverage.Operations) []admissionv1.MatchCondition {
	// A policy with its own match conditions determines itself which requests are sent.
	if b.Options.Derive && !h.authored && hasRoomFor(out, DerivedCondition) {
		if x, ok := h.derive(asked, b.Options.Protects); ok {
			out = append(out, admissionv1.MatchCondition{Name: DerivedCondition, Expression: x})
		}
	}
	return out
}

// withCondition adds a required condition. If the webhook has no room for it, or the name is already used, it is merged into the
// last condition.
func withCondition(have []admissionv1.MatchCondition, name, expression string) []admissionv1.MatchCondition {
	if hasRoomFor(have, name) {
		return append(have, admissionv1.MatchCondition{Name: name, Expression: expression})
	}
	last := &have[len(have)-1]
	last.Expression = typecheck.Group(expression) + " && " + typecheck.Group(last.Expression)
	return have
}

// hasRoomFor reports whether the webhook has room for another condition with that name.
func hasRoomFor(have []admissionv1.MatchCondition, name string) bool {
	return len(have) < maxConditions && len(validation.IsQualifiedName(name)) == 0 &&
		!slices.ContainsFunc(have, func(c admissionv1.MatchCondition) bool { return c.Name == name })
}

// globalConditions returns the match conditions of the ConfigMap.
func (b *builder) globalConditions() (out []admissionv1.MatchCondition) {
	for _, c := range b.Settings.Webhook.MatchConditions {
		out = append(out, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	return out
}

// namespaceName is the label that the API server gives every namespace.
const namespaceName = "kubernetes.io/metadata.name"

// namespaceSelector returns the selector of the ConfigMap. By default it excludes kube-system. It always excludes our own namespace, since
// a webhook for that namespace could prevent our recovery.
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

// leaveOut excludes the namespace from the selector, in the same form as the chart.
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

// maxSize is the maximum size of the JSON of the webhooks in one configuration, in bytes. etcd accepts 1.5 MiB, and the list of managed
// fields may need as much as the webhooks themselves.
const maxSize = 512 << 10

// splitBySize divides webhooks among configurations so that each configuration can be stored: a thousand policies with match conditions
// need a thousand webhooks. The shared webhooks come first. There is always at least one part.
func splitBySize(webhooks []webhook) [][]webhook {
	var out [][]webhook
	size := 0
	for _, fine := range []bool{false, true} {
		for _, w := range webhooks {
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

// partName returns the name of the configuration for a part.
func partName(base string, i int) string {
	if i == 0 {
		return base
	}
	return base + "-" + strconv.Itoa(i+1)
}
