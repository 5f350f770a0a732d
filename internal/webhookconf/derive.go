package webhookconf

import (
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
)

// DerivedCondition is the name of the match condition that is derived from the policies of a webhook.
const DerivedCondition = names.Domain + "policies"

// The derived condition has at most maxTerms terms and maxDerived bytes, because the API server evaluates it for each request, and
// denies the request if an expression costs too much. maxGroups is the maximum number of groups in a term, since each is compared with
// all groups of the requester.
const (
	maxTerms   = 64
	maxDerived = 16 << 10
	maxGroups  = 32
)

// derivation collects which requests the policies of one webhook match. If the resulting expression is false for a request, no policy of
// the webhook has a result or creates work, so the API server need not call the webhook.
//
// Each rule adds terms, one for each filter of its match block (match.Matcher.Header). A rule without usable literals ends the derivation,
// and the webhook gets no condition.
type derivation struct {
	terms    []term
	unknown  bool
	mutates  int // the number of mutate rules so far
	mutating bool
	groups   int
	// oneNamespace: all rules belong to policies of one namespace. The user of the terms then limits them to that namespace.
	oneNamespace bool
}

// term is a conjunction of expressions, sorted.
type term []string

// add adds a rule of the webhook.
func (d *derivation) add(r *policy.Rule) {
	switch {
	case d.unknown:
		return
	case r.Header == nil, r.Stage.Has(policy.StageGenerate | policy.StageMutateExisting):
		// Rules with deferred work also evaluate objects that they created or that they no longer match.
		d.setUnknown()
		return
	case r.Stage.Has(policy.StageMutate):
		if d.mutates++; d.mutates > 1 {
			d.setUnknown() // because of the mutation of one rule, the next rule may match
			return
		}
	}
	h := r.Header
	filters := make([][]policy.Literals, 0, len(h.Filters))
	for _, f := range h.Filters {
		filters = append(filters, []policy.Literals{f})
	}
	if h.All {
		filters = [][]policy.Literals{h.Filters}
	}
	for _, together := range filters {
		t, never := d.term(r, together)
		if never {
			continue
		}
		if len(t) == 0 {
			d.setUnknown()
			return
		}
		d.insert(t)
	}
	if len(d.terms) > maxTerms || d.groups > maxGroups {
		d.setUnknown()
	}
}

func (d *derivation) setUnknown() { d.unknown, d.terms = true, nil }

// term returns the expressions that are true for every request that all filters select and the rule does not exclude. never reports
// that no such request exists.
func (d *derivation) term(r *policy.Rule, filters []policy.Literals) (_ term, never bool) {
	var t term
	operations := []policy.Operation{policy.Connect, policy.Create, policy.Delete, policy.Update}
	keep := func(wanted func(policy.Operation) bool) {
		operations = slices.DeleteFunc(operations, func(o policy.Operation) bool { return !wanted(o) })
	}
	if r.SkipOnDelete {
		keep(func(o policy.Operation) bool { return o != policy.Delete })
	}
	for i := range filters {
		f := &filters[i]
		if f.Operations != nil {
			keep(func(o policy.Operation) bool { return slices.Contains(f.Operations, o) })
		}
		// An object without a name (generateName) may later get a name that matches.
		if f.Names != nil {
			t = append(t, "(!has(request.name) || "+isIn("request.name", f.Names)+")")
		}
		// A Namespace is evaluated by its own name, not by the namespace of the request.
		if f.Namespaces != nil {
			t = append(t, "("+namespaceIs(f.Namespaces)+` || request.resource.resource == "namespaces")`)
		}
		if !d.mutating { // another webhook may set labels later, and the API server does not call our webhook again
			for _, l := range f.Labels {
				t = append(t, labelIs(l))
			}
		}
		if f.Users != nil || f.Groups != nil {
			d.groups += len(f.Groups)
			t = append(t, requesterIs(f))
		}
	}
	if r.Header.Namespace != "" && !d.oneNamespace {
		t = append(t, namespaceIs([]string{r.Header.Namespace}))
	}
	for i := range r.Header.Without {
		if w := d.excluded(&r.Header.Without[i]); w != "" {
			t = append(t, "!("+w+")")
		}
	}
	if len(operations) == 0 {
		return nil, true
	}
	if len(operations) < 4 {
		t = append(t, operationIs(operations))
	}
	slices.Sort(t)
	return slices.Compact(t), false
}

// excluded returns an expression that is true only for requests that the filter of an exclude block matches. It is empty if there
// is no such expression.
func (d *derivation) excluded(f *policy.Literals) string {
	if d.mutating && f.Labels != nil {
		return ""
	}
	var t term
	if f.Operations != nil {
		t = append(t, operationIs(f.Operations))
	}
	if f.Names != nil {
		t = append(t, "has(request.name)", isIn("request.name", f.Names))
	}
	if f.Namespaces != nil {
		t = append(t, `request.resource.resource != "namespaces"`, namespaceIs(f.Namespaces))
	}
	for _, l := range f.Labels {
		t = append(t, labelIs(l))
	}
	if f.Users != nil || f.Groups != nil {
		d.groups += len(f.Groups)
		t = append(t, requesterIs(f))
	}
	return strings.Join(t, " && ")
}

// insert adds a term, unless an existing term covers it, and removes the terms that the new term covers.
func (d *derivation) insert(t term) {
	wider := func(a, b term) bool { // reports whether a is true whenever b is true
		for _, x := range a {
			if _, found := slices.BinarySearch(b, x); !found {
				return false
			}
		}
		return true
	}
	for _, have := range d.terms {
		if wider(have, t) {
			return
		}
	}
	d.terms = append(slices.DeleteFunc(d.terms, func(have term) bool { return wider(t, have) }), t)
}

// derive returns the condition for a webhook that is called for the operations. ok is false if there is no condition, or if it would not
// exclude any request that the webhook's rules select. Only the cluster-wide policies determine whether there is a condition. A namespaced
// policy adds an expression for its namespace, or the whole namespace.
func (h *draft) derive(asked coverage.Operations, protects bool) (_ string, ok bool) {
	texts, known := h.derived.alternatives(asked)
	if !known || len(texts) == 0 && len(h.rules) > 0 {
		return "", false
	}
	var perNamespace []namespaceText
	for namespace, s := range h.namespaces {
		one := namespaceText{namespace: namespace}
		// If, because of the mutation of one rule, another rule may match, only the namespace is used.
		if own, known := s.derived.alternatives(asked); known && h.derived.mutates+s.derived.mutates <= 1 {
			one.text = strings.Join(own, " || ")
			if len(own) == 0 {
				continue // its policies match no request
			}
		}
		perNamespace = append(perNamespace, one)
	}
	out := strings.Join(texts, " || ")
	if len(out) > maxDerived {
		return "", false
	}
	if in, _ := byNamespace(perNamespace, maxDerived); in != "" {
		out = strings.Join(append(texts, "("+in+")"), " || ")
	}
	if out == "" {
		return "", false
	}
	if strings.Contains(out, "labels") {
		out = "[" + subject + "].map(o, " + labelsOf + ").exists(labels, " + out + ")"
	}
	if protects {
		out = "(" + out + ") || " + protected
	}
	return out, true
}

// alternatives returns the alternatives of the expression; one of them must be true. known is false if nothing is known, or if the alternatives
// only depend on the operations.
func (d *derivation) alternatives(asked coverage.Operations) (texts []string, known bool) {
	if d.unknown {
		return nil, false
	}
	var union []string
	kept := derivation{}
	for _, t := range d.terms {
		t = slices.DeleteFunc(slices.Clone(t), func(x string) bool {
			ops, ok := operationsIn(x)
			union = append(union, ops...)
			return ok && asked.Within(ops) // the webhook has no other operations
		})
		if len(t) == 0 {
			return nil, false
		}
		kept.insert(t)
	}
	onlyOperations := !slices.ContainsFunc(kept.terms, func(t term) bool { return len(t) > 1 || !strings.HasPrefix(t[0], operationField) })
	if len(kept.terms) > 0 && asked.Within(union) && onlyOperations {
		return nil, false
	}
	for _, t := range kept.terms {
		text := strings.Join(t, " && ")
		if len(kept.terms) > 1 && len(t) > 1 {
			text = "(" + text + ")"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts, true
}

// Parts of the expressions. Each optional field has a guard, because the API server denies a request if an expression fails.
const (
	// subject is the object that match blocks evaluate (policy.Request.Subject).
	subject = `(object == null || request.operation == "DELETE") && oldObject != null ? oldObject : object`
	// labelsOf returns the labels of o. It returns none for objects without metadata, such as the options of a CONNECT.
	labelsOf = `o != null && has(o.metadata) && o.metadata != null && has(o.metadata.labels) && o.metadata.labels != null ? o.metadata.labels : {}`
	// protected is true for objects that only our controllers may change (--protectManagedResources).
	protected = `[object, oldObject].exists(p, [p].map(o, ` + labelsOf + `).exists(labels, "app.kubernetes.io/managed-by" in labels && labels["app.kubernetes.io/managed-by"] == "kyverno"))`
)

const operationField = "request.operation in "

func operationIs(list []policy.Operation) string {
	texts := make([]string, len(list))
	for i, o := range list {
		texts[i] = string(o)
	}
	slices.Sort(texts)
	return operationField + listOf(slices.Compact(texts))
}

// operationsIn parses an expression that operationIs wrote.
func operationsIn(expression string) (out []string, ok bool) {
	list, ok := strings.CutPrefix(expression, operationField)
	if !ok {
		return nil, false
	}
	for _, o := range []policy.Operation{policy.Connect, policy.Create, policy.Delete, policy.Update} {
		if strings.Contains(list, quote(string(o))) {
			out = append(out, string(o))
		}
	}
	return out, true
}

func namespaceIs(names []string) string {
	return "has(request.namespace) && " + isIn("request.namespace", names)
}

func requesterIs(f *policy.Literals) string {
	var t []string
	if len(f.Users) > 0 {
		t = append(t, "has(request.userInfo.username) && "+isIn("request.userInfo.username", f.Users))
	}
	if len(f.Groups) > 0 {
		groups := make([]string, len(f.Groups))
		for i, g := range f.Groups {
			groups[i] = quote(g) + " in request.userInfo.groups"
		}
		t = append(t, "has(request.userInfo.groups) && ("+strings.Join(groups, " || ")+")")
	}
	return "(" + strings.Join(t, " || ") + ")"
}

func labelIs(l policy.LabelRequirement) string {
	has, value := quote(l.Key)+" in labels", "labels["+quote(l.Key)+"]"
	switch l.Operator {
	case "In":
		return "(" + has + " && " + isIn(value, l.Values) + ")"
	case "NotIn":
		return "!(" + has + " && " + isIn(value, l.Values) + ")"
	case "Exists":
		return has
	default:
		return "!(" + has + ")"
	}
}

func isIn(field string, values []string) string {
	if len(values) == 1 {
		return field + " == " + quote(values[0])
	}
	values = slices.Clone(values)
	slices.Sort(values)
	return field + " in " + listOf(slices.Compact(values))
}

func listOf(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote formats a text of printable ASCII (policy.Literals) as a CEL string.
func quote(s string) string { return strconv.Quote(s) }
