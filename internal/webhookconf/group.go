package webhookconf

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/policy"
)

// Policies that select resources with the fields of a webhook (policy.WebhookSelection) are grouped by their selectors. The webhook of a
// group has the rules that its policies contain, and its path names the policies. A policy with its own webhook forms a separate group.

// selectorGroup is such a webhook under construction.
type selectorGroup struct {
	at                                *policy.Endpoint
	failurePolicy                     policy.FailurePolicy
	namespaceSelector, objectSelector *metav1.LabelSelector
	members                           []groupedPolicy

	own        *policy.Webhook // the webhook of the one policy; nil for a shared webhook
	namespaced bool            // the policies are namespaced
	key        string          // the key of the one policy
	selectors  string          // the hash of both selectors
	extra      bool            // the webhook is in our own configuration
}

// groupedPolicy is a policy of a group: its name and its webhook rules.
type groupedPolicy struct {
	name    string
	rules   []admissionv1.RuleWithOperations
	program *policy.Program
}

// groupKey identifies a group.
type groupKey struct {
	at            *policy.Endpoint
	failurePolicy policy.FailurePolicy
	selectors     string
	own           string // the key of the one policy
	extra         bool
}

// addToGroup adds the rules of a policy to its group. An error is the reason why the API server would reject the webhook. Then addToGroup adds nothing,
// since the rejection would affect the other webhooks, too.
func (b *builder) addToGroup(to *phase, p *policy.Program, w *policy.Webhook) error {
	sel := w.Selection
	for name, s := range map[string]*metav1.LabelSelector{"namespaceSelector": sel.NamespaceSelector, "objectSelector": sel.ObjectSelector} {
		if errs := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, field.NewPath(name)); len(errs) > 0 {
			return LeftOut{fmt.Errorf("the webhook of the policy cannot be written: %w", errs.ToAggregate())}
		}
	}
	var rules []admissionv1.RuleWithOperations
	for _, r := range sel.Rules {
		if r, some := normalize(r); some {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return errors.New("the policy matches no request: no rule names a group, a version, a resource and an operation")
	}
	g := &selectorGroup{
		at: w.Endpoint, failurePolicy: p.Settings.FailurePolicy, namespaced: p.Namespace != "", extra: w.Extra,
		namespaceSelector: b.namespacesOf(p, sel), objectSelector: intersect(sel.ObjectSelector, b.Settings.Webhook.ObjectSelector),
	}
	g.selectors = hashOf(g.namespaceSelector, g.objectSelector)
	key := groupKey{w.Endpoint, g.failurePolicy, g.selectors, "", w.Extra}
	if w.Own != "" {
		g.own, g.key, key.own = w, p.Key(), p.Key()
	}
	if err := b.charge(p, w, to.groups[key] == nil); err != nil {
		return LeftOut{err}
	}
	if to.groups == nil {
		to.groups = map[groupKey]*selectorGroup{}
	}
	if have := to.groups[key]; have != nil {
		g = have
	} else {
		to.groups[key] = g
	}
	g.members = append(g.members, groupedPolicy{p.Name, rules, p})
	return nil
}

// namespacesOf returns the namespaceSelector of a policy combined with that of the ConfigMap. For a namespaced policy it selects its
// namespace.
func (b *builder) namespacesOf(p *policy.Program, sel *policy.WebhookSelection) *metav1.LabelSelector {
	own := sel.NamespaceSelector
	if p.Namespace != "" {
		own = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: namespaceName, Operator: metav1.LabelSelectorOpIn, Values: []string{p.Namespace}},
		}}
	}
	return intersect(own, b.namespaceSelector())
}

// intersect returns a selector for the objects that both selectors select.
func intersect(x, y *metav1.LabelSelector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, s := range []*metav1.LabelSelector{x, y} {
		if s == nil {
			continue
		}
		s = s.DeepCopy()
		out.MatchExpressions = append(out.MatchExpressions, s.MatchExpressions...)
		for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
			v := s.MatchLabels[k]
			if have, again := out.MatchLabels[k]; again && have != v {
				// No object has both values, so nothing matches.
				out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: k, Operator: metav1.LabelSelectorOpIn, Values: []string{v}})
				continue
			}
			if out.MatchLabels == nil {
				out.MatchLabels = map[string]string{}
			}
			out.MatchLabels[k] = v
		}
	}
	return out
}

func hashOf(selectors ...*metav1.LabelSelector) string {
	text, _ := json.Marshal(selectors)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// grouped returns the webhooks of the groups of a phase: those in our own configuration, or the others.
func (b *builder) grouped(s *phase, extra bool) (out []webhook) {
	selectors := map[string]map[string]bool{} // the selectors of shared webhooks, by the name of the endpoint
	for _, g := range s.groups {
		if g.own != nil || g.extra != extra {
			continue
		}
		if selectors[g.at.Name] == nil {
			selectors[g.at.Name] = map[string]bool{}
		}
		selectors[g.at.Name][g.selectors] = true
	}
	names := map[string]int{}
	for key, g := range s.groups {
		if g.extra != extra {
			continue
		}
		all := g.members
		if key.extra = false; extra && s.groups[key] != nil {
			all = s.groups[key].notAsked(all)
		}
		if len(all) == 0 {
			continue
		}
		for i, members := range split(all) {
			w := b.groupWebhook(g, members, i, len(selectors[g.at.Name]) > 1)
			names[w.Name]++
			out = append(out, w)
		}
	}
	// Endpoints may share a name, and joining names and namespaces with a hyphen may produce equal names. The API server rejects duplicate
	// names.
	for i := range out {
		if w := &out[i]; names[w.Name] > 1 {
			sum := sha256.Sum256([]byte(w.path))
			w.Name += "-" + hex.EncodeToString(sum[:4])
		}
	}
	return out
}

// notAsked returns policies about subresources of Pods without those about which the webhooks of the group already ask them: the path of a
// webhook names all policies of its part, so a rule of one policy sends requests to the others, too.
func (g *selectorGroup) notAsked(policies []groupedPolicy) (out []groupedPolicy) {
	parts := map[string]map[string]bool{} // by policy: the resources of which its part gets all updates
	for _, part := range split(g.members) {
		asked := map[string]bool{}
		for _, m := range part {
			for _, r := range m.rules {
				if !hasAny(r.APIGroups, "", "*") || !hasAny(r.APIVersions, "v1", "*") || !hasAny(r.Operations, admissionv1.Update, admissionv1.OperationAll) ||
					*r.Scope == admissionv1.ClusterScope {
					continue
				}
				for _, name := range r.Resources {
					asked[name] = true
				}
			}
			parts[m.name] = asked
		}
	}
	for _, m := range policies {
		var rules []admissionv1.RuleWithOperations
		for _, r := range m.rules {
			r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool {
				asked := parts[m.name]
				resource, sub, _ := strings.Cut(name, "/")
				return asked[name] || asked["*/*"] || asked[resource+"/*"] || asked["*/"+sub]
			})
			if len(r.Resources) > 0 {
				rules = append(rules, r)
			}
		}
		if len(rules) > 0 {
			m.rules = rules
			out = append(out, m)
		}
	}
	return out
}

// hasAny reports whether a list has one of the elements.
func hasAny[T comparable](l []T, of ...T) bool {
	return slices.ContainsFunc(l, func(t T) bool { return slices.Contains(of, t) })
}

// groupWebhook returns the webhook for a part of a group. Its name differs from the names of the other parts and, if several is set, from
// those of other groups.
func (b *builder) groupWebhook(g *selectorGroup, members []groupedPolicy, part int, several bool) webhook {
	var names []string
	var rules []admissionv1.RuleWithOperations
	var programs []*policy.Program
	for _, m := range members {
		names, rules, programs = append(names, m.name), append(rules, m.rules...), append(programs, m.program)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	name := g.at.Name
	if g.extra {
		name = "subresources." + name
	}
	name += "-" + strings.ToLower(g.failurePolicy.String())
	switch {
	case g.own != nil:
		name += "-finegrained-" + strings.ReplaceAll(g.key, "/", "-")
	case several:
		name += "-" + g.selectors
	}
	if part > 0 {
		name += "-" + strconv.Itoa(part+1)
	}
	path := g.at.Path + "/" + strings.Join(names, "/")
	w := b.webhook(name, path)
	w.fine, w.path, w.once, w.namespaced = g.own != nil, path+"#"+g.key, g.at.Once, g.namespaced
	w.programs = programs
	if g.failurePolicy == policy.Ignore {
		w.FailurePolicy = admissionv1.Ignore
	}
	w.NamespaceSelector, w.ObjectSelector = g.namespaceSelector, g.objectSelector
	w.SideEffects = admissionv1.SideEffectClassNoneOnDryRun
	w.TimeoutSeconds = ReviewTimeoutSeconds // independent of --webhookTimeout
	w.Rules = uniqueRules(rules)
	if g.own != nil {
		w.exact = g.own.Selection.Exact
		if t := g.own.Selection.TimeoutSeconds; t > 0 {
			w.TimeoutSeconds = min(t, MaxTimeoutSeconds)
		}
		for _, c := range g.own.Conditions {
			if hasRoomFor(w.MatchConditions, c.Name) && b.Conditions.Check(c.Expression) == nil { // Ephor evaluates the others
				w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
			}
		}
	}
	if b.Options.ExcludeBootstrap && g.failurePolicy == policy.Fail && hasRoomFor(w.MatchConditions, bootstrapCondition) {
		w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: bootstrapCondition, Expression: bootstrapExpression})
	}
	if n, wild := namedIn(w.Rules); wild {
		w.MatchConditions = withCondition(w.MatchConditions, ReservedCondition, n.condition())
	}
	return w
}

// holdsReserved reports whether the API group of a rule has resources that wildcards do not include.
func holdsReserved(group string) bool {
	return group == "*" || group == "rbac.authorization.k8s.io" || group == "apiextensions.k8s.io" ||
		slices.ContainsFunc(ReservedResources, func(r Reserved) bool { return r.Group == group })
}

// namedIn returns the resources that rules name. wild reports whether the rules may also cover reserved resources that they do not name.
func namedIn(rules []admissionv1.RuleWithOperations) (n namedResources, wild bool) {
	for _, r := range rules {
		for _, text := range r.Resources {
			resource, sub, _ := strings.Cut(text, "/")
			if resource == "*" {
				wild = wild || slices.ContainsFunc(r.APIGroups, holdsReserved)
				if sub != "" && sub != "*" {
					n.addSubresource(sub)
				}
				continue
			}
			for _, g := range r.APIGroups {
				if g != "*" {
					n.add(coverage.Resource{Group: g, Name: resource, Subresource: sub})
					continue
				}
				for i := range ReservedResources {
					n.add(coverage.Resource{Group: ReservedResources[i].Group, Name: resource, Subresource: sub})
				}
			}
		}
	}
	return n, wild
}

// normalize returns a rule with sorted lists, without entries that another entry of the list covers and without unknown operations, since the
// API server rejects such lists. some is false for a rule that covers no request, or that has an unknown scope.
func normalize(r admissionv1.RuleWithOperations) (_ admissionv1.RuleWithOperations, some bool) {
	out := *r.DeepCopy()
	out.Operations = sortedUnique(slices.DeleteFunc(out.Operations, func(o admissionv1.OperationType) bool { return !isOperation(o) }))
	out.APIGroups = sortedUnique(out.APIGroups)
	out.APIVersions = sortedUnique(slices.DeleteFunc(out.APIVersions, func(v string) bool { return v == "" }))
	out.Resources = slices.DeleteFunc(out.Resources, func(n string) bool { return n == "" })
	slices.Sort(out.Resources)
	out.Resources = slices.Compact(out.Resources)
	out.Resources = withoutCovered(out.Resources)
	switch {
	case out.Scope == nil:
		scope := admissionv1.AllScopes
		out.Scope = &scope
	case !slices.Contains([]admissionv1.ScopeType{admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope}, *out.Scope):
		return out, false
	}
	return out, len(out.Operations) > 0 && len(out.APIGroups) > 0 && len(out.APIVersions) > 0 && len(out.Resources) > 0
}

// isOperation reports whether requests can have the operation.
func isOperation(o admissionv1.OperationType) bool {
	return o == admissionv1.OperationAll || coverage.Known(policy.Operation(o))
}

// sortedUnique returns a sorted list without duplicates. `*` replaces all other entries.
func sortedUnique[T ~string](l []T) []T {
	if slices.Contains(l, "*") {
		return []T{"*"}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// withoutCovered returns the names of a rule's resources that no other name covers: */* covers everything, * all main resources, pods/* the
// subresources of pods, and */scale the subresource scale of all resources.
func withoutCovered(names []string) []string {
	all := make(map[string]bool, len(names))
	for _, n := range names {
		all[n] = true
	}
	return slices.DeleteFunc(names, func(n string) bool {
		covers := func(wide string) bool { return wide != n && all[wide] }
		resource, sub, isSub := strings.Cut(n, "/")
		if !isSub {
			return covers("*/*") || covers("*")
		}
		return covers("*/*") || covers(resource+"/*") || covers("*/"+sub)
	})
}

// uniqueRules returns the rules in canonical order without duplicates.
func uniqueRules(rules []admissionv1.RuleWithOperations) []admissionv1.RuleWithOperations {
	rules = slices.Clone(rules)
	slices.SortFunc(rules, coverage.CompareRules)
	return slices.CompactFunc(rules, func(a, b admissionv1.RuleWithOperations) bool { return coverage.CompareRules(a, b) == 0 })
}
