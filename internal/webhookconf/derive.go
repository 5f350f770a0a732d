package webhookconf

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ephor-dev/ephor/internal/policy"
)

// DerivedCondition is the name of the match condition that is derived from the policies of a webhook.
const DerivedCondition = "ephor.dev/policies"

// The derived condition holds at most maxTerms terms and maxDerived bytes: it is evaluated for each request, and the API
// server refuses the request when an expression takes too much. maxGroups bounds the groups that it looks for, since
// each is compared with all groups of the requester.
const (
	maxTerms   = 64
	maxDerived = 16 << 10
	maxGroups  = 32
)

// derivation collects, for one webhook, what its policies say of the requests that they are for. Where the expression
// made of it is false, no policy of the webhook has a result or asks for work; so the API server need not ask.
//
// Each rule gives terms, one for each filter of its match block (match.Matcher.Header). A rule of which nothing can be
// said ends the derivation.
type derivation struct {
	terms    []term
	gaveUp   bool
	mutates  int // mutate rules so far
	mutating bool
	groups   int
	// space: all rules are of policies of one namespace, and the reader of the terms says so.
	space bool
}

// term is a conjunction of expressions, sorted.
type term []string

// add takes in a rule that the webhook is for.
func (d *derivation) add(r *policy.Rule) {
	switch {
	case d.gaveUp:
		return
	case r.Header == nil, r.Stage.Has(policy.StageGenerate | policy.StageMutateExisting):
		// Rules with deferred work also look at objects that they no longer match, or once made.
		d.giveUp()
		return
	case r.Stage.Has(policy.StageMutate):
		if d.mutates++; d.mutates > 1 {
			d.giveUp() // a rule may make an object one that the next is for
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
			d.giveUp()
			return
		}
		d.insert(t)
	}
	if len(d.terms) > maxTerms || d.groups > maxGroups {
		d.giveUp()
	}
}

func (d *derivation) giveUp() { d.gaveUp, d.terms = true, nil }

// term writes what must be true of a request that all filters select and the rule does not exclude. never: there is no
// such request.
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
		// An object that is still without a name may come to have one that fits, as far as the request can tell.
		if f.Names != nil {
			t = append(t, "(!has(request.name) || "+isIn("request.name", f.Names)+")")
		}
		// A Namespace is evaluated by its own name, whatever namespace the request is said to be in.
		if f.Namespaces != nil {
			t = append(t, "("+namespaceIs(f.Namespaces)+` || request.resource.resource == "namespaces")`)
		}
		if !d.mutating { // another webhook may still set labels, and then ours is not asked again
			for _, l := range f.Labels {
				t = append(t, labelIs(l))
			}
		}
		if f.Users != nil || f.Groups != nil {
			d.groups += len(f.Groups)
			t = append(t, requesterIs(f))
		}
	}
	if r.Header.Namespace != "" && !d.space {
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

// excluded is true only of requests that the filter of an exclude block holds for; empty when that cannot be written.
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

// insert adds a term unless one that is there holds whenever it does, and drops those that it makes superfluous.
func (d *derivation) insert(t term) {
	wider := func(a, b term) bool { // a holds whenever b does
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

// derive is the condition for a webhook that is asked for the operations; ok is false when there is none, or when it would
// say no more than the rules of the webhook do. Cluster-wide policies decide whether there is one: a namespaced policy
// only adds what is about its namespace, all of which it is when nothing else can be said of it.
func (h *hook) derive(asked operations, protects bool) (_ string, ok bool) {
	texts, says := h.derived.texts(asked)
	if !says || len(texts) == 0 && len(h.rules) > 0 {
		return "", false
	}
	var spaces []space
	for namespace, s := range h.spaces {
		one := space{namespace: namespace}
		// Where one mutate rule may make an object one that another is for, only the namespace is used.
		if own, says := s.derived.texts(asked); says && h.derived.mutates+s.derived.mutates <= 1 {
			one.text = strings.Join(own, " || ")
			if len(own) == 0 {
				continue // there is no request that it is for
			}
		}
		spaces = append(spaces, one)
	}
	out := strings.Join(texts, " || ")
	if len(out) > maxDerived {
		return "", false
	}
	if in, _ := byNamespace(spaces, maxDerived); in != "" {
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

// texts are the parts of the expression, of which one has to be true. says is false when nothing is known, or nothing
// that the operations which are asked for do not say.
func (d *derivation) texts(asked operations) (texts []string, says bool) {
	if d.gaveUp {
		return nil, false
	}
	var union []string
	kept := derivation{}
	for _, t := range d.terms {
		t = slices.DeleteFunc(slices.Clone(t), func(x string) bool {
			ops, ok := operationsIn(x)
			union = append(union, ops...)
			return ok && asked.within(ops) // nothing else is asked for
		})
		if len(t) == 0 {
			return nil, false
		}
		kept.insert(t)
	}
	onlyOperations := !slices.ContainsFunc(kept.terms, func(t term) bool { return len(t) > 1 || !strings.HasPrefix(t[0], operationField) })
	if len(kept.terms) > 0 && asked.within(union) && onlyOperations {
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

// Parts of the expressions. Every field that may be absent is guarded: an expression that fails refuses the request.
const (
	// subject is the object that match blocks look at (policy.Request.Subject).
	subject = `(object == null || request.operation == "DELETE") && oldObject != null ? oldObject : object`
	// labelsOf are the labels of o, none for what has no metadata, such as the options of a CONNECT.
	labelsOf = `o != null && has(o.metadata) && o.metadata != null && has(o.metadata.labels) && o.metadata.labels != null ? o.metadata.labels : {}`
	// protected holds for objects that only we may change (--protectManagedResources).
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

// operationsIn reads what operationIs wrote.
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

// quote writes a text of printable ASCII (policy.Literals) as CEL does.
func quote(s string) string { return strconv.Quote(s) }
