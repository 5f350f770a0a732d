package webhookconf

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/names"
)

// ConfinedCondition is the name of the match condition that limits a shared webhook: resources that only namespaced policies need are sent
// only for their namespaces.
const ConfinedCondition = names.Domain + "namespaced-policies"

// maxNamespaces is the maximum size of the part of an expression that distinguishes namespaces, in bytes. The API server accepts expressions
// of up to 100,000 characters.
const maxNamespaces = 64 << 10

// namespaceText is the expression for requests in one namespace.
type namespaceText struct {
	namespace string
	text      string // empty for all requests in the namespace
}

// byNamespace returns an expression that is true for a request if the text for its namespace is true; it is empty if there are no
// namespaces. Namespaces with the same text share it. If the expression would exceed limit, byNamespace drops the longest texts. The
// expression is then true for all requests in their namespaces, and other namespaces are not affected. If the names of the namespaces alone
// exceed limit, the expression is true for the requests in all namespaces, and unconfined is true.
func byNamespace(texts []namespaceText, limit int) (expression string, unconfined bool) {
	shared := map[string][]string{}
	for _, s := range texts {
		shared[s.text] = append(shared[s.text], s.namespace)
	}
	type group struct {
		text, all string
		names     []string
	}
	size := 0
	var groups []group
	for text, names := range shared {
		slices.Sort(names)
		g := group{text: text, names: names, all: namespaceIs(names)}
		if text != "" {
			g.all = "(" + g.all + " && (" + text + "))"
		}
		size += len(g.all) + len(" || ")
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(len(b.text)-len(a.text), strings.Compare(a.text, b.text))
	})
	var out, whole []string
	for _, g := range groups {
		if g.text == "" || size > limit {
			whole = append(whole, g.names...)
			size -= len(g.text) // the names of the namespaces stay
			continue
		}
		out = append(out, g.all)
	}
	if len(whole) > 0 {
		slices.Sort(whole)
		all := namespaceIs(whole)
		if len(all) > limit {
			all, unconfined = "has(request.namespace)", true // thousands of namespaces have policies
		}
		out = append(out, "("+all+")")
	}
	if len(out) == 0 {
		return "", false
	}
	slices.Sort(out)
	// For a request for a Namespace, the API server sets the namespace of the request to the name of that Namespace.
	return `(request.resource.resource != "namespaces" || request.resource.group != "") && (` + strings.Join(out, " || ") + ")", unconfined
}

// confine calls byNamespace for a required condition. It records in the draft if namespaces are not distinguished.
func (h *draft) confine(texts []namespaceText) string {
	expression, unconfined := byNamespace(texts, maxNamespaces)
	h.unconfined = h.unconfined || unconfined
	return expression
}

// target is the resource of a request with its subresource, in the form of webhook rules. forTarget binds it to r.
const target = `request.resource.resource + (has(request.subResource) && request.subResource != "" ? "/" + request.subResource : "")`

func forTarget(expression string) string { return "[" + target + "].exists(r, " + expression + ")" }

// groupsOf returns the groups of the requests that a rule covers.
func groupsOf(r admissionv1.RuleWithOperations) (out []string) {
	for _, group := range r.APIGroups {
		for _, n := range r.Resources {
			resource, _, _ := strings.Cut(n, "/")
			out = append(out, coverage.GroupsOf(group, resource)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// textOf returns an expression that is true for the requests that the rules cover, regardless of the version, since the API server
// converts requests for versions that no rule names. It is empty if there are no rules.
func textOf(rules []admissionv1.RuleWithOperations) string {
	var texts []string
	for _, r := range rules {
		var parts []string
		if !slices.Contains(r.APIGroups, "*") {
			parts = append(parts, isIn("request.resource.group", groupsOf(r)))
		}
		if x := namesText(r.Resources); x != "" {
			parts = append(parts, x)
		}
		if len(r.Operations) < len(coverage.All()) {
			ops := make([]string, len(r.Operations))
			for i, o := range r.Operations {
				ops[i] = string(o)
			}
			parts = append(parts, isIn("request.operation", ops))
		}
		text := strings.Join(parts, " && ")
		switch {
		case text == "":
			return "true"
		case len(parts) > 1:
			text = "(" + text + ")"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts) // rules for several versions have the same text
	return strings.Join(slices.Compact(texts), " || ")
}

// namesText returns an expression that is true if r is one of the resources of a webhook rule; it is empty if the rule covers all of them.
func namesText(names []string) string {
	var exact, texts []string
	for _, n := range names {
		resource, sub, _ := strings.Cut(n, "/")
		switch {
		case resource == "*" && sub == "*":
			return ""
		case resource == "*" && sub == "":
			texts = append(texts, `!r.contains("/")`)
		case resource == "*":
			texts = append(texts, "r.endsWith("+quote("/"+sub)+")")
		case sub == "*":
			texts = append(texts, "r.startsWith("+quote(resource+"/")+")")
			exact = append(exact, resource)
		default:
			exact = append(exact, n)
		}
	}
	if len(exact) > 0 {
		texts = append(texts, isIn("r", exact))
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "(" + strings.Join(texts, " || ") + ")"
}

// confined returns the condition that limits the rules of a shared webhook, in each namespace, to the resources that cluster-wide
// policies and the policies of that namespace need. ok is false if its namespaced policies add nothing to the rules.
func (h *draft) confined() (_ string, ok bool) {
	var texts []namespaceText
	for namespace, s := range h.namespaces {
		own := coverage.Union(s.rules)
		for p, ops := range own {
			for op := range h.rules.On(p) {
				delete(ops, op)
			}
		}
		if text := textOf(own.Rules()); text != "" {
			texts = append(texts, namespaceText{namespace, text})
		}
	}
	if len(texts) == 0 {
		return "", false
	}
	out := h.confine(texts)
	if others := textOf(coverage.Union(h.rules).Rules()); others != "" {
		out = others + " || (" + out + ")"
	}
	return forTarget(out), true
}

// reserved returns the condition that excludes reserved resources from a webhook with wildcards, except those that a cluster-wide policy or
// a policy of the namespace names. ok is false for a webhook without wildcards.
func (h *draft) reserved() (_ string, ok bool) {
	ok = h.wild
	var texts []namespaceText
	for namespace, s := range h.namespaces {
		ok = ok || s.wild
		if text := textOf(s.named.reserved()); text != "" {
			texts = append(texts, namespaceText{namespace, text})
		}
	}
	if !ok {
		return "", false
	}
	out := h.named.condition()
	if in := h.confine(texts); in != "" {
		out += " || " + forTarget(in)
	}
	return out, true
}

// reserved returns rules for the reserved resources that policies name.
func (n *namedResources) reserved() (out []admissionv1.RuleWithOperations) {
	all := coverage.Set{}
	for p := range n.resources {
		if reservedFor(p) != nil {
			all.Add(coverage.All(), p)
		}
	}
	for i := range ReservedResources {
		if r := &ReservedResources[i]; r.Subresource != "" && n.subresources[r.Subresource] {
			all.Add(coverage.All(), coverage.Resource{Group: r.Group, Name: r.Resource, Subresource: r.Subresource})
		}
	}
	return all.Rules()
}
