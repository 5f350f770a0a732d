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

	"github.com/ephor-dev/ephor/internal/policy"
)

// Policies that select resources with the fields of a webhook (policy.WebhookSelection) are grouped by their selectors. The webhook of a
// group has the rules that its policies contain, and its path names the policies. A policy with its own webhook forms a separate group.

// group is such a webhook under construction.
type group struct {
	at                                *policy.Endpoint
	failurePolicy                     policy.FailurePolicy
	namespaceSelector, objectSelector *metav1.LabelSelector
	members                           []member

	own       *policy.Webhook // the webhook of the one policy; nil for a share
	key       string          // the key of the one policy
	selectors string          // the hash of both selectors
	extra     bool            // the webhook is in our own configuration
}

// member is a policy of a group: its name and its webhook rules.
type member struct {
	name  string
	rules []admissionv1.RuleWithOperations
}

// groupKey identifies a group.
type groupKey struct {
	at            *policy.Endpoint
	failurePolicy policy.FailurePolicy
	selectors     string
	own           string // the key of the one policy
	extra         bool
}

// join adds the rules of a policy to its group. An error is the reason why the API server would reject the webhook. Then join adds nothing,
// since the rejection would affect the other webhooks, too.
func (b *builder) join(to *side, p *policy.Program, w *policy.Webhook) error {
	sel := w.Selection
	for name, s := range map[string]*metav1.LabelSelector{"namespaceSelector": sel.NamespaceSelector, "objectSelector": sel.ObjectSelector} {
		if errs := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, field.NewPath(name)); len(errs) > 0 {
			return fmt.Errorf("the webhook of the policy cannot be written: %w", errs.ToAggregate())
		}
	}
	var rules []admissionv1.RuleWithOperations
	for _, r := range sel.Rules {
		if r, some := normal(r); some {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return errors.New("the policy matches no request: no rule names a group, a version, a resource and an operation")
	}
	g := &group{
		at: w.Endpoint, failurePolicy: p.Settings.FailurePolicy, extra: w.Extra,
		namespaceSelector: b.namespacesOf(p, sel), objectSelector: both(sel.ObjectSelector, b.Settings.Webhook.ObjectSelector),
	}
	g.selectors = hashOf(g.namespaceSelector, g.objectSelector)
	key := groupKey{w.Endpoint, g.failurePolicy, g.selectors, "", w.Extra}
	if w.Own != "" {
		g.own, g.key, key.own = w, p.Key(), p.Key()
	}
	if to.groups == nil {
		to.groups = map[groupKey]*group{}
	}
	if have := to.groups[key]; have != nil {
		g = have
	} else {
		to.groups[key] = g
	}
	g.members = append(g.members, member{p.Name, rules})
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
	return both(own, b.namespaceSelector())
}

// both returns a selector for the objects that both selectors select.
func both(x, y *metav1.LabelSelector) *metav1.LabelSelector {
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

// grouped returns the webhooks of the groups of a side: those in our own configuration, or the others.
func (b *builder) grouped(s *side, extra bool) (out []webhook) {
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
			all = s.groups[key].unasked(all)
		}
		if len(all) == 0 {
			continue
		}
		for i, members := range divided(all) {
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

// unasked returns policies without the rules whose requests the webhooks of the group already send to them: the path of a webhook names
// all policies of its part, so a rule of one policy sends requests to the others, too.
func (g *group) unasked(policies []member) (out []member) {
	for _, part := range divided(g.members) {
		var asked []admissionv1.RuleWithOperations
		names := map[string]bool{}
		for _, m := range part {
			asked, names[m.name] = append(asked, m.rules...), true
		}
		for _, m := range policies {
			if !names[m.name] {
				continue
			}
			var rules []admissionv1.RuleWithOperations
			for _, r := range m.rules {
				r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool {
					return slices.ContainsFunc(asked, func(a admissionv1.RuleWithOperations) bool { return asks(a, r, name) })
				})
				if len(r.Resources) > 0 {
					rules = append(rules, r)
				}
			}
			if len(rules) > 0 {
				out = append(out, member{m.name, rules})
			}
		}
	}
	return out
}

// asks reports whether a rule selects all requests that r selects for the resource.
func asks(rule, r admissionv1.RuleWithOperations, resource string) bool {
	return covers(rule.APIGroups, r.APIGroups) && covers(rule.APIVersions, r.APIVersions) && covers(rule.Operations, r.Operations) &&
		(*rule.Scope == admissionv1.AllScopes || *rule.Scope == *r.Scope) &&
		slices.ContainsFunc(rule.Resources, func(wide string) bool { return wide == resource || coversName(wide, resource) })
}

// covers reports whether a list of a rule contains all elements of another.
func covers[T ~string](wide, l []T) bool {
	return slices.Contains(wide, "*") || !slices.ContainsFunc(l, func(t T) bool { return !slices.Contains(wide, t) })
}

// groupWebhook returns the webhook for a part of a group. Its name differs from the names of the other parts and, if several is set, from
// those of other groups.
func (b *builder) groupWebhook(g *group, members []member, part int, several bool) webhook {
	var names []string
	var rules []admissionv1.RuleWithOperations
	for _, m := range members {
		names, rules = append(names, m.name), append(rules, m.rules...)
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
	w.fine, w.path, w.once = g.own != nil, path+"#"+g.key, g.at.Once
	if g.failurePolicy == policy.Ignore {
		w.FailurePolicy = admissionv1.Ignore
	}
	w.NamespaceSelector, w.ObjectSelector = g.namespaceSelector, g.objectSelector
	w.SideEffects = admissionv1.SideEffectClassNoneOnDryRun
	w.TimeoutSeconds = ReviewTimeoutSeconds // independent of --webhookTimeout
	w.Rules = distinct(rules)
	if g.own != nil {
		w.exact = g.own.Selection.Exact
		if t := g.own.Selection.TimeoutSeconds; t > 0 {
			w.TimeoutSeconds = min(t, MaxTimeoutSeconds)
		}
		for _, c := range g.own.Conditions {
			if takes(w.MatchConditions, c.Name) {
				w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: c.Name, Expression: c.Expression})
			}
		}
	}
	if b.Options.ExcludeBootstrap && g.failurePolicy == policy.Fail && takes(w.MatchConditions, bootstrapCondition) {
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
func namedIn(rules []admissionv1.RuleWithOperations) (n named, wild bool) {
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
					n.add(place{group: g, resource: resource, sub: sub})
					continue
				}
				for i := range ReservedResources {
					n.add(place{group: ReservedResources[i].Group, resource: resource, sub: sub})
				}
			}
		}
	}
	return n, wild
}

// normal returns a rule with sorted lists, without entries that another entry of the list covers, since the API server rejects such
// lists. some is false for a rule that covers no request.
func normal(r admissionv1.RuleWithOperations) (_ admissionv1.RuleWithOperations, some bool) {
	out := *r.DeepCopy()
	out.Operations = list(out.Operations)
	out.APIGroups = list(out.APIGroups)
	out.APIVersions = list(slices.DeleteFunc(out.APIVersions, func(v string) bool { return v == "" }))
	out.Resources = list(slices.DeleteFunc(out.Resources, func(n string) bool { return n == "" }))
	all := slices.Clone(out.Resources)
	out.Resources = slices.DeleteFunc(out.Resources, func(n string) bool {
		return slices.ContainsFunc(all, func(wide string) bool { return wide != n && coversName(wide, n) })
	})
	if out.Scope == nil {
		scope := admissionv1.AllScopes
		out.Scope = &scope
	}
	return out, len(out.Operations) > 0 && len(out.APIGroups) > 0 && len(out.APIVersions) > 0 && len(out.Resources) > 0
}

// list returns a sorted list without duplicates. `*` replaces all other entries.
func list[T ~string](l []T) []T {
	if slices.Contains(l, "*") && len(l) > 1 && !slices.ContainsFunc(l, func(t T) bool { return strings.Contains(string(t), "/") }) {
		return []T{"*"}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// coversName reports whether one name in the resources of a rule covers another: */* covers everything, * all main resources, pods/*
// the subresources of pods, and */scale the subresource scale of all resources.
func coversName(wide, n string) bool {
	w, wideSub, hasSub := strings.Cut(wide, "/")
	r, sub, isSub := strings.Cut(n, "/")
	switch {
	case wide == "*/*":
		return true
	case !hasSub:
		return w == "*" && !isSub
	}
	return isSub && (w == "*" || w == r) && (wideSub == "*" || wideSub == sub)
}

// distinct returns the rules in canonical order without duplicates.
func distinct(rules []admissionv1.RuleWithOperations) []admissionv1.RuleWithOperations {
	rules = slices.Clone(rules)
	slices.SortFunc(rules, compareRules)
	return slices.CompactFunc(rules, func(a, b admissionv1.RuleWithOperations) bool { return compareRules(a, b) == 0 })
}
