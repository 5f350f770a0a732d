package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/wildcard"
)

// targets converts the targets of a rule: an expression lists the existing resources for each trigger. In later expressions, `object` is the
// target and `request.object` the trigger.
func (c *converter) targets(r *kyvernov1.Rule, spec map[string]any) {
	all, path := r.Mutation.Targets, c.path+".mutate.targets"
	if len(c.variables) > 0 {
		c.refuse(c.path+".match", "the classic rule also changes pod controllers, without targets", "set the annotation pod-policies.kyverno.io/autogen-controllers to none")
		return
	}
	matched, _ := filters(&r.MatchResources, c.path+".match")
	if !c.deletions && slices.ContainsFunc(matched, func(f filter) bool { return slices.Contains(operationsOf(f), "DELETE") }) {
		c.refuse(c.path+".match", "for deletions, request.object is the deleted object in the classic language, and null in CEL", "write a MutatingPolicy that reads oldObject")
		return
	}
	var lists []string
	var rules []schema.GroupVersionResource
	var kinds []schema.GroupVersionKind
	whole := len(all) == 1
	for i := range all {
		t, at := &all[i], fmt.Sprintf("%s[%d]", path, i)
		list, filtered, gvr, ok := c.target(t, at)
		if !ok {
			continue
		}
		whole = whole && !filtered
		if !filtered {
			list += ".items"
		}
		if !slices.Contains(lists, list) {
			lists = append(lists, list)
		}
		if !slices.Contains(rules, gvr) {
			rules = append(rules, gvr)
		}
		kind, _, _ := strings.Cut(t.Kind, "/")
		kinds = append(kinds, schema.GroupVersionKind{Group: gvr.Group, Version: gvr.Version, Kind: kind})
	}
	expression := "{'items': " + strings.Join(lists, " + ") + "}"
	if whole {
		expression = strings.TrimSuffix(strings.Join(lists, ""), ".items")
	}
	constraints := map[string]any{"expression": expression}
	if slices.ContainsFunc(rules, func(r schema.GroupVersionResource) bool { return strings.Contains(r.Resource, "/") }) {
		constraints["resourceRules"] = rulesFor(rules, []string{"*"}) // the rules name the subresource that is written
	}
	spec["targetMatchConstraints"] = constraints
	c.existingSettings(r, spec)
	c.matched, c.object, c.changed = kinds, member("request.object"), member("object")
	if c.deletions {
		c.object = member("request.oldObject")
	}
	c.entries = nil
	c.context(r.Context, c.path+".context")
	if len(all) != 1 {
		return
	}
	c.context(all[0].Context, path+"[0].context")
	if raw, ok := c.decode(all[0].RawAnyAllConditions, path+"[0].preconditions"); ok && raw != nil {
		if conditions := addCondition(nil, "preconditions", c.conditions(raw, path+"[0].preconditions")); conditions != nil {
			spec["targetMatchConditions"] = conditions
		}
	}
}

// existingSettings converts the settings of rules with targets.
func (c *converter) existingSettings(r *kyvernov1.Rule, spec map[string]any) {
	evaluation, _ := spec["evaluation"].(map[string]any)
	evaluation["mutateExisting"] = map[string]any{"enabled": true}
	if r.SkipBackgroundRequests != nil && !*r.SkipBackgroundRequests {
		evaluation["skipBackgroundRequests"] = false
	}
	onChange := c.policy.Spec.MutateExistingOnPolicyUpdate
	if own := r.Mutation.MutateExistingOnPolicyUpdate; own != nil {
		onChange = *own
	}
	if !onChange {
		c.mark(celpolicy.OnPolicyUpdateAnnotation, "false")
	}
}

// target returns the expression for the targets of one entry. filtered is false if all items of a list are targets.
func (c *converter) target(t *kyvernov1.TargetResourceSpec, path string) (list string, filtered bool, gvr schema.GroupVersionResource, ok bool) {
	switch {
	case t.UID != "":
		c.refuse(path+".uid", "a target with a UID is not converted", "name the target")
		return "", false, gvr, false
	case wildcard.Has(t.APIVersion+t.Kind) || strings.Contains(t.APIVersion+t.Kind, "{{"):
		c.refuse(path+".kind", "a kind with wildcards or variables has no resource rule", "name the kind")
		return "", false, gvr, false
	}
	kind, subresource, _ := strings.Cut(t.Kind, "/")
	plural, ok := c.plural(t.APIVersion, kind, path+".kind")
	if !ok {
		return "", false, gvr, false
	}
	version, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		c.refuse(path+".apiVersion", err.Error(), "")
		return "", false, gvr, false
	}
	if gvr = version.WithResource(plural); subresource != "" {
		gvr.Resource += "/" + subresource
	}
	x := c.fresh("target")
	metadata := member(x + ".metadata")
	arguments, kept := []string{text(t.APIVersion), text(plural)}, yes
	if c.policy.Kind != "Policy" {
		namespace := text("")
		if t.Namespace != "" && !wildcard.Has(literals(t.Namespace)) {
			if namespace, ok = c.place(t.Namespace, path+".namespace"); !ok {
				return "", false, gvr, false
			}
		} else if t.Namespace != "" && t.Namespace != "*" {
			in := c.anyGlob(metadata.field("namespace"), []string{t.Namespace})
			if strings.Contains(t.Namespace, "{{") {
				pattern, _ := c.operand(t.Namespace, path+".namespace")
				in = member("string(" + metadata.field("namespace").text + ").matches(" + globOf(pattern.expr) + ")")
			}
			// For resources without a namespace, the namespace is not a condition.
			kept = or(not(member(metadata.optional("namespace").text+".hasValue()")), in)
		}
		arguments = append(arguments, namespace)
	}
	named, demanded, ok := c.targetName(t.Name, metadata.field("name"), path+".name")
	if !ok {
		return "", false, gvr, false
	}
	kept = and(kept, named)
	if s := t.Selector; s != nil {
		kept = and(kept, c.selector(s, metadata, path+".selector"))
	}
	list = "dyn(resource.list(" + strings.Join(arguments, ", ") + "))"
	if kept == yes {
		return list, false, gvr, true
	}
	if list += ".items.filter(" + x + ", " + kept.text + ")"; demanded != "" {
		list = "(" + demanded + " != null ? " + list + " : [])"
	}
	return list, true, gvr, true
}

// targetName returns the condition that a target has the name. An empty name matches every target. demanded is the name, if it may be missing: the classic
// rule has an error then, even if there is no target.
func (c *converter) targetName(name string, at expr, path string) (same expr, demanded string, ok bool) {
	switch {
	case name == "":
		return yes, "", true
	case !strings.Contains(name, "{{"):
		return c.anyGlob(at, []string{name}), "", true
	}
	wanted, ok := c.operand(name, path)
	if !ok {
		return no, "", false
	}
	if wildcard.Has(literals(name)) {
		return member("string(" + at.text + ").matches(" + globOf(wanted.expr) + ")"), "", true
	}
	same = comparison(at.text + " == " + wanted.within(bindsUnary))
	if wanted.text == "object.metadata.name" || wanted.text == "request.name" || wanted.text == "object.metadata.namespace" {
		return same, "", true
	}
	if wanted.there() != yes {
		demanded = wanted.within(bindsUnary)
	}
	if !ofName().MatchString(wanted.text) && !(len(wanted.keys) == 3 && wanted.keys[1] == "labels") { // the text may have wildcards
		same = member("string(" + at.text + ").matches(" + globOf(wanted.value()) + ")")
	}
	return or(comparison(wanted.within(bindsUnary)+" == ''"), same), demanded, true
}

// ofName matches expressions that read the name of an object, which has no wildcards.
var ofName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.(name|namespace)\)*(\[-?[0-9]+\])?$`) })
