package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// filter is one element of any or all, and its path in the policy.
type filter struct {
	kyvernov1.ResourceFilter
	path string
}

// filters returns the filters of a match or exclude block; all reports whether all of them must match.
func filters(m *kyvernov1.MatchResources, path string) (out []filter, all bool) {
	switch {
	case len(m.Any) > 0:
		for i, f := range m.Any {
			out = append(out, filter{f, fmt.Sprintf("%s.any[%d]", path, i)})
		}
	case len(m.All) > 0:
		for i, f := range m.All {
			out = append(out, filter{f, fmt.Sprintf("%s.all[%d]", path, i)})
		}
		all = true
	default:
		out = []filter{{kyvernov1.ResourceFilter{UserInfo: m.UserInfo, ResourceDescription: m.ResourceDescription}, path}}
	}
	return out, all
}

// matching converts match, exclude, preconditions and match conditions.
func (c *converter) matching(r *kyvernov1.Rule, spec map[string]any) {
	constraints := map[string]any{}
	matched, all := filters(&r.MatchResources, c.path+".match")
	operations := c.operations(r, matched, all)
	constraints["resourceRules"] = c.resourceRules(matched, all, operations)
	object := member("object")
	if slices.Contains(operations, "DELETE") {
		object, c.object = whole, member(subject)
		if c.deletions = len(operations) == 1; c.deletions {
			object = deleted
		}
	}
	c.autogen(r, spec, constraints, operations)
	c.context(r.Context, c.path+".context")
	conditions := c.selected(matched, all, object, operations, constraints)
	if r.ExcludeResources != nil {
		conditions = addCondition(conditions, "exclude", not(c.excluded(r.ExcludeResources, object)))
	}
	if w := c.policy.Spec.WebhookConfiguration; w != nil {
		for i := range w.MatchConditions {
			conditions = append(conditions, document(&w.MatchConditions[i]))
		}
	}
	params := parameters{}
	if v := r.Validation; v != nil && v.CEL != nil && len(r.CELPreconditions) > 0 {
		params = c.parameters(v.CEL, c.path+".validate.cel")
	}
	for i := range r.CELPreconditions {
		if params.read != (expr{}) && !params.several { // conditions of policies cannot read variables
			p := &r.CELPreconditions[i]
			p.Expression = inPlaceOfParams(p.Expression, params.read.text)
		}
		if spec["failurePolicy"] == "Ignore" && r.Validation != nil { // without a value, the rule has an error, and a policy with matchConditions would not match
			c.unless = and(orYes(c.unless), expr{r.CELPreconditions[i].Expression, bindsTernary})
			continue
		}
		conditions = append(conditions, document(&r.CELPreconditions[i]))
	}
	if raw, ok := c.decode(r.Preconditions, c.path+".preconditions"); ok && raw != nil {
		if e := c.conditions(raw, c.path+".preconditions"); strings.Contains(e.text, subject) && !c.deletions {
			c.unless = and(orYes(c.unless), e) // conditions of policies cannot read variables
		} else {
			conditions = addCondition(conditions, "preconditions", e)
		}
	}
	conditions = addCondition(conditions, "first", c.first())
	spec["matchConstraints"] = constraints
	if len(conditions) > 0 {
		spec["matchConditions"] = conditions
	}
	if len(c.variables) > 0 {
		spec["variables"] = c.variables
	}
}

// addCondition adds a condition, unless it is always true.
func addCondition(to []any, name string, e expr) []any {
	if e == yes {
		return to
	}
	return append(to, map[string]any{"name": name, "expression": e.text})
}

// selected returns the condition for the filters of match, apart from their kinds.
func (c *converter) selected(matched []filter, all bool, subject expr, operations []string, constraints map[string]any) []any {
	naming := 0 // filters that name kinds
	for _, f := range matched {
		if len(f.ResourceDescription.Kinds) > 0 {
			naming++
		}
	}
	several := len(matched) > 1
	var parts []expr
	for _, f := range matched {
		if s := f.ResourceDescription.NamespaceSelector; s != nil && !several && !hasWildcards(s) {
			constraints["namespaceSelector"] = document(s)
			f.ResourceDescription.NamespaceSelector = nil
		}
		parts = append(parts, c.filter(f, subject, naming > 1 || slices.ContainsFunc(f.ResourceDescription.Kinds, partialName) || len(operationsOf(f)) > 0 && len(operationsOf(f)) < len(operations)))
	}
	if all {
		return addCondition(nil, "match", and(parts...))
	}
	return addCondition(nil, "match", or(parts...))
}

func operationsOf(f filter) []string {
	var out []string
	for _, o := range f.ResourceDescription.Operations {
		out = append(out, string(o))
	}
	return out
}

// operations returns all operations on which the rule is evaluated.
func (c *converter) operations(r *kyvernov1.Rule, matched []filter, all bool) []string {
	var out []string
	for i, f := range matched {
		named := operationsOf(f)
		if len(named) == 0 {
			named = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}
		}
		if all && i > 0 {
			out = slices.DeleteFunc(out, func(o string) bool { return !slices.Contains(named, o) })
			continue
		}
		for _, o := range named {
			if !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	if v := r.Validation; v != nil && v.Deny == nil && v.CEL == nil && len(v.ForEachValidation) == 0 { // rules with patterns are not evaluated on deletions
		out = slices.DeleteFunc(out, func(o string) bool { return o == "DELETE" || o == "CONNECT" })
	}
	if c.spares(r, "DELETE") {
		out = slices.DeleteFunc(out, func(o string) bool { return o == "DELETE" })
	}
	if r.Mutation != nil && (len(r.Mutation.Targets) == 0 || len(out) > 1) || len(r.VerifyImages) > 0 { // a deleted object is not changed, and its images do not matter
		out = slices.DeleteFunc(out, func(o string) bool { return o == "DELETE" || o == "CONNECT" })
	}
	if r.Generation != nil && !slices.ContainsFunc(matched, func(f filter) bool { return len(operationsOf(f)) > 0 }) {
		out = []string{"CREATE", "UPDATE"}
		if slices.ContainsFunc(matched, func(f filter) bool { return slices.ContainsFunc(f.ResourceDescription.Kinds, connects) }) {
			out = append(out, "CONNECT")
		}
	}
	return out
}

// connects reports whether requests for a kind, such as Pod/exec, connect to a resource.
func connects(kind string) bool {
	t, err := match.ParseKind(kind)
	return err == nil && slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, t.Subresource)
}

// spares reports whether the preconditions of a rule never hold for an operation.
func (c *converter) spares(r *kyvernov1.Rule, operation string) bool {
	raw, ok := c.decode(r.Preconditions, c.path+".preconditions")
	all, isList := raw.([]any)
	if m, isMap := raw.(map[string]any); isMap {
		all, isList = m["all"].([]any)
	}
	failed := false // an error of an earlier condition counts for the operation, too
	return ok && isList && slices.ContainsFunc(all, func(e any) bool {
		m, _ := e.(map[string]any)
		key, _ := m["key"].(string)
		if failed = failed || mayFail(m); failed {
			return false
		}
		if !ofOperation().MatchString(key) {
			return false
		}
		operator, _ := m["operator"].(string)
		values, isList := m["value"].([]any)
		if !isList {
			values = []any{m["value"]}
		}
		for _, v := range values {
			if s, text := v.(string); !text || wildcard.Has(s) || strings.Contains(s, "{{") {
				return false
			}
		}
		named := slices.Contains(values, any(operation))
		switch operator {
		case "Equals", "Equal", "In", "AnyIn", "AllIn":
			return !named && (isList != strings.HasPrefix(operator, "Equal"))
		case "NotEquals", "NotEqual", "NotIn", "AnyNotIn", "AllNotIn":
			return named && (isList != strings.HasPrefix(operator, "NotEqual"))
		}
		return false
	})
}

// ofOperation matches a key that is the operation of the request.
var ofOperation = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\{\{\s*request\.operation\s*(\|\|\s*'\w*'\s*)?\}\}$`)
})

// resourceRules returns the resource rules of the policy. Where all filters have to match, those without kinds are conditions only.
func (c *converter) resourceRules(matched []filter, all bool, operations []string) []any {
	type rule struct {
		groups, versions []string
		resources        []string
	}
	var rules []rule
	for _, f := range matched {
		path := f.path + ".resources.kinds"
		if len(f.ResourceDescription.Kinds) == 0 && !(all && slices.ContainsFunc(matched, func(f filter) bool { return len(f.ResourceDescription.Kinds) > 0 })) {
			c.refuse(path, "a rule without kinds has no resource rules", "name the kinds")
		}
		for _, kind := range f.ResourceDescription.Kinds {
			t, err := match.ParseKind(kind)
			if err != nil {
				c.refuse(path, err.Error(), "")
				continue
			}
			next, ok := c.resourceRule(t, kind, path)
			for _, n := range next {
				c.matched = append(c.matched, schema.GroupVersionKind{Group: n[0], Version: n[1], Kind: t.Kind})
			}
			if !ok {
				continue
			}
			for _, n := range next {
				i := slices.IndexFunc(rules, func(r rule) bool {
					return slices.Equal(r.groups, []string{n[0]}) && slices.Equal(r.versions, []string{n[1]})
				})
				switch {
				case i < 0:
					rules = append(rules, rule{[]string{n[0]}, []string{n[1]}, []string{n[2]}})
				case !slices.Contains(rules[i].resources, n[2]):
					rules[i].resources = append(rules[i].resources, n[2])
				}
			}
		}
	}
	out := make([]any, 0, len(rules))
	for _, r := range rules {
		out = append(out, map[string]any{
			"apiGroups": anyList(r.groups), "apiVersions": anyList(r.versions), "operations": anyList(operations), "resources": anyList(r.resources),
		})
	}
	return out
}

func anyList(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// resourceRule returns group, version and resource of each resource that a kind selector selects.
func (c *converter) resourceRule(t policy.Target, kind, path string) (out [][3]string, ok bool) {
	sub := func(resource string) string {
		if t.Subresource == "" {
			return resource
		}
		return resource + "/" + t.Subresource
	}
	if t.Kind == "*" {
		return [][3]string{{t.Group, t.Version, sub("*")}}, true
	}
	if t.Group != "*" && wildcard.Has(t.Group) || wildcard.Has(t.Kind) { // conditions select the kinds
		return [][3]string{{"*", "*", sub("*")}}, true
	}
	found := c.schemas.Resources(t)
	if len(found) == 0 {
		c.refuse(path, fmt.Sprintf("the resource of the kind %q is not known", kind), "write group/version/Kind, or name its definition with --crd-paths")
		return nil, false
	}
	for _, gvr := range found {
		out = append(out, [3]string{gvr.Group, gvr.Version, sub(gvr.Resource)})
	}
	return out, true
}

// filter returns the condition for one filter. It omits the kinds and the operations if they do not matter.
func (c *converter) filter(f filter, subject expr, kinds bool) expr {
	d := &f.ResourceDescription
	var parts []expr
	if kinds {
		if len(d.Kinds) > 0 {
			parts = append(parts, c.kinds(d.Kinds, f.path))
		}
		if named := operationsOf(f); len(named) > 0 && !c.deleting {
			parts = append(parts, comparison("request.operation in "+list(named)))
		}
	}
	metadata := subject.field("metadata")
	if names := d.Names; d.Name != "" || len(names) > 0 {
		if d.Name != "" {
			names = append([]string{d.Name}, names...)
		}
		name := member(metadata.optional("name").text + ".orValue('')")
		parts = append(parts, c.anyGlob(name, names))
	}
	if len(d.Namespaces) > 0 {
		namespace := member("request.?namespace.orValue('')") // autogen rewrites that of the object
		if c.deleting {
			namespace = member(metadata.optional("namespace").text + ".orValue('')")
		}
		if slices.Contains(d.Kinds, "Namespace") { // a Namespace is selected by its name
			name, kind := member(metadata.optional("name").text+".orValue('')"), "request.kind.kind"
			if c.deleting {
				kind = "object.kind"
			}
			if len(d.Kinds) > 1 {
				name = member("(" + kind + " == 'Namespace' ? " + name.text + " : " + namespace.text + ")")
			}
			namespace = name
		}
		parts = append(parts, c.anyGlob(namespace, d.Namespaces))
	}
	for _, key := range sortedKeys(d.Annotations) {
		parts = append(parts, c.pair(metadata, "annotations", key, d.Annotations[key]))
	}
	if d.Selector != nil {
		parts = append(parts, c.selector(d.Selector, metadata, f.path+".resources.selector"))
	}
	if d.NamespaceSelector != nil {
		parts = append(parts, c.namespaceSelector(d.NamespaceSelector, f.path+".resources.namespaceSelector"))
	}
	if len(f.Roles) > 0 {
		parts = append(parts, c.roles(f.Roles, "Role", f.path+".roles"))
	}
	if len(f.ClusterRoles) > 0 {
		parts = append(parts, c.roles(f.ClusterRoles, "ClusterRole", f.path+".clusterRoles"))
	}
	if len(f.Subjects) > 0 {
		parts = append(parts, c.subjects(f))
	}
	return and(parts...)
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// kinds returns the condition that the object has one of the kinds.
func (c *converter) kinds(all []string, path string) expr {
	var alternatives []expr
	for _, kind := range all {
		t, err := match.ParseKind(kind)
		if err != nil {
			continue // resourceRules reports it
		}
		if t.Kind == "*" || c.controllers && t.Kind == "Pod" { // autogen rewrites Pod to the controllers, and the rule matches nothing else
			return yes
		}
		one := globText(member("request.kind.kind"), t.Kind)
		if c.deleting { // there is no request
			one = globText(member("object.kind"), t.Kind)
			switch {
			case t.Group == "":
				one = and(not(comparison("object.apiVersion.contains('/')")), one)
			case t.Group != "*":
				one = and(member("object.apiVersion.startsWith("+text(t.Group+"/")+")"), one)
			}
			alternatives = append(alternatives, one)
			continue
		}
		if t.Group != "*" {
			one = and(globText(member("request.kind.group"), t.Group), one)
		}
		if t.Subresource != "" {
			one = and(one, comparison("request.?subResource.orValue('') == "+text(t.Subresource)))
		}
		alternatives = append(alternatives, one)
	}
	return or(alternatives...)
}

// partialName reports whether a kind selector has wildcards beside other characters.
func partialName(kind string) bool {
	t, err := match.ParseKind(kind)
	return err == nil && (t.Kind != "*" && wildcard.Has(t.Kind) || t.Group != "*" && wildcard.Has(t.Group))
}

// anyGlob returns the condition that a text matches one of several names with wildcards.
func (c *converter) anyGlob(at expr, names []string) expr {
	var plain []string
	var alternatives []expr
	for _, n := range names {
		switch {
		case n == "*":
			return yes
		case wildcard.Has(n):
			alternatives = append(alternatives, globText(at, n))
		default:
			plain = append(plain, n)
		}
	}
	switch len(plain) {
	case 0:
	case 1:
		alternatives = append([]expr{comparison(at.text + " == " + text(plain[0]))}, alternatives...)
	default:
		alternatives = append([]expr{comparison(at.text + " in " + list(plain))}, alternatives...)
	}
	return or(alternatives...)
}

// globText is glob for a value that is known to be a string.
func globText(at expr, s string) expr {
	if !wildcard.Has(s) {
		return comparison(at.text + " == " + text(s))
	}
	out := glob(at, s)
	out.text = strings.Replace(out.text, "string("+at.text+")", at.within(bindsMember), 1)
	return out
}

// pair returns the condition that a label or annotation exists, with wildcards in name and value.
func (c *converter) pair(metadata expr, of, key, want string) expr {
	at := metadata.optional(of)
	if wildcard.Has(key) {
		x := c.fresh("name")
		all := member(at.text + ".orValue({})")
		return all.macro("exists", x, and(globText(member(x), key), globText(all.at(x), want)))
	}
	if strings.Contains(want, "{{") {
		wanted, ok := c.operand(want, c.path)
		if !ok {
			return no
		}
		return comparison(at.optional(key).text + " == optional.of(" + wanted.value().text + ")")
	}
	if want == "*" {
		return member(at.optional(key).text + ".hasValue()")
	}
	if want == "" || wildcard.Has(want) && wildcard.Match(want, "") {
		return and(member(at.optional(key).text+".hasValue()"), globText(member(at.optional(key).text+".orValue('')"), want))
	}
	return globText(member(at.optional(key).text+".orValue('')"), want)
}

// at returns the value whose key is held by a variable.
func (e expr) at(variable string) expr { return member(e.text + "[" + variable + "]") }

// selector returns the condition for a label selector.
func (c *converter) selector(s *metav1.LabelSelector, metadata expr, path string) expr {
	var parts []expr
	for _, key := range sortedKeys(s.MatchLabels) {
		parts = append(parts, c.pair(metadata, "labels", key, s.MatchLabels[key]))
	}
	for i, e := range s.MatchExpressions {
		if wildcard.Has(e.Key) || slices.ContainsFunc(e.Values, wildcard.Has) {
			c.refuse(fmt.Sprintf("%s.matchExpressions[%d]", path, i), "wildcards in matchExpressions have no counterpart here", "")
			continue
		}
		at := metadata.optional("labels").optional(e.Key)
		there := member(at.text + ".hasValue()")
		among := and(there, comparison(at.text+".orValue('') in "+list(e.Values)))
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			parts = append(parts, among)
		case metav1.LabelSelectorOpNotIn:
			parts = append(parts, not(among))
		case metav1.LabelSelectorOpExists:
			parts = append(parts, there)
		case metav1.LabelSelectorOpDoesNotExist:
			parts = append(parts, not(there))
		}
	}
	return and(parts...)
}

// namespaceSelector returns the condition that a selector matches the labels of the object's namespace. It matches no Namespace, and tests other objects
// without a namespace as if it had no labels.
func (c *converter) namespaceSelector(s *metav1.LabelSelector, path string) expr {
	if c.deleting {
		c.refuse(path, "a cleanup policy with several filters cannot select namespaces by labels", "split the policy")
		return no
	}
	matches := c.selector(s, member("namespaceObject.metadata"), path)
	there := comparison("namespaceObject != null")
	switch {
	case c.inNamespaces():
		return matches
	case len(s.MatchLabels) > 0 || slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		return e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists
	}):
		return and(there, matches)
	}
	return expr{there.text + " ? " + matches.within(bindsOr) + " : request.kind.kind != 'Namespace'", bindsTernary}
}

// inNamespaces reports whether all objects of the kinds that the rule matches are in namespaces.
func (c *converter) inNamespaces() bool {
	for _, k := range c.matched {
		if k.Kind == "" || wildcard.Has(k.Kind) || !kinds.KubernetesGroup(k.Group) || kinds.ClusterScoped(k.GroupVersion().String(), k.Kind) {
			return false
		}
	}
	return len(c.matched) > 0
}

// subjects returns the condition about the requester.
func (c *converter) subjects(f filter) expr {
	username := member("request.userInfo.?username.orValue('')")
	var users, groups []string
	for _, s := range f.Subjects {
		switch s.Kind {
		case "Group":
			groups = append(groups, s.Name)
		case "ServiceAccount":
			users = append(users, "system:serviceaccount:"+s.Namespace+":"+s.Name)
		default:
			users = append(users, s.Name)
		}
	}
	var alternatives []expr
	if len(users) > 0 {
		alternatives = append(alternatives, c.anyGlob(username, users))
	}
	if len(groups) > 0 {
		x := c.fresh("group")
		alternatives = append(alternatives, member("request.userInfo.?groups.orValue([])").macro("exists", x, c.anyGlob(member(x), groups)))
	}
	return or(alternatives...)
}

// excluded returns the condition that an exclude block matches.
func (c *converter) excluded(m *kyvernov1.MatchResources, subject expr) expr {
	all, every := filters(m, c.path+".exclude")
	var parts []expr
	for _, f := range all {
		if len(f.ResourceDescription.Kinds) == 0 {
			f.ResourceDescription.Kinds = []string{"*"}
		}
		parts = append(parts, c.filter(f, subject, true))
	}
	if every {
		return and(parts...)
	}
	return or(parts...)
}
