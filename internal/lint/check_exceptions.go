package lint

import (
	"fmt"
	"slices"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/exception"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
)

// Exception checks one exception of any group. It stops after errors. pos returns positions for field paths; it may be nil.
func Exception(o compile.Object) []Finding {
	e, diags := compile.OneException(o)
	var out []Finding
	for _, d := range diags {
		out = append(out, Found(d))
	}
	if e == nil || diags.HasErrors() {
		return out
	}
	for _, c := range checks {
		if c.exception == nil {
			continue
		}
		for _, d := range c.exception(o.Value, e) {
			if o.Pos != nil {
				d.Pos = o.Pos(d.Path)
			}
			out = append(out, Finding{c, d})
		}
	}
	return out
}

// WideException is the check for exceptions that exempt more than some objects.
var WideException = &Check{
	Name: "wide-exception",
	Doc: "The exception exempts more than some objects: all objects of its kinds, a whole namespace, or from all rules of a policy. Name the objects and the rules, " +
		"and for podSecurity rules and images the controls or images. `ephor exceptions list` shows how many objects an exception exempts.",
	Example: `apiVersion: kyverno.io/v2
kind: PolicyException
metadata:
  name: example
  namespace: shop
spec:
  exceptions:
  - policyName: no-host-network
    ruleNames: [host-network]
  match:
    any:
    - resources:
        kinds: [Pod]
        namespaces: [shop]
`,
	exception: func(object map[string]any, e *policy.Exception) (l diag.List) {
		if e.ID().Group != exception.Exceptions.Group {
			var x policiesv1beta1.PolicyException
			strict.Decode(object, &x)
			if len(x.Spec.MatchConditions) == 0 && !e.Partial {
				l.Warnf("spec.matchConditions", "the exception exempts every object that its policies match")
				l.Hint("select objects with matchConditions, or allow only images or allowedValues")
			}
			return l
		}
		x, _ := exception.Decode(object)
		for i, r := range x.Spec.Exceptions {
			if slices.Contains(r.RuleNames, "*") && !e.Partial {
				l.Warnf(fmt.Sprintf("spec.exceptions[%d].ruleNames", i), "the exception exempts from all rules of %s, also from later ones", r.PolicyName)
				l.Hint("name the rules")
			}
		}
		if len(x.Spec.Match.All) > 0 || e.Conditions != nil {
			return l // other filters or conditions may select the objects
		}
		for i := range x.Spec.Match.Any {
			d := &x.Spec.Match.Any[i].ResourceDescription
			if !selects(d) {
				what := "all objects of its kinds"
				if len(d.Namespaces) > 0 && !slices.Contains(d.Namespaces, "*") {
					what = "all objects of its kinds in " + strings.Join(d.Namespaces, ", ")
				}
				l.Warnf(fmt.Sprintf("spec.match.any[%d].resources", i), "the exception exempts %s", what)
				l.Hint("name the objects, or select them by labels")
			}
		}
		return l
	},
}

// selects reports whether the description selects some objects of its kinds.
func selects(d *kyvernov1.ResourceDescription) bool {
	names := d.Names
	if d.Name != "" {
		names = append(slices.Clip(names), d.Name)
	}
	return d.Selector != nil || len(d.Annotations) > 0 || len(names) > 0 && !slices.Contains(names, "*")
}

var targetNamedTwice = &Check{
	Name: "target-named-twice",
	Doc: "The exception names a controller and, by wildcards, the objects that it makes, or the rules that autogen derives. The annotation `exceptions.ephor.dev/covers: workload` " +
		"does the same without wildcards, which also exempt what others call so: name the controller and the authored rules only.",
	Example: `apiVersion: kyverno.io/v2
kind: PolicyException
metadata:
  name: example
  namespace: shop
spec:
  exceptions:
  - policyName: no-host-network
    ruleNames: [host-network, autogen-host-network]
  match:
    any:
    - resources:
        kinds: [Deployment, ReplicaSet, Pod]
        namespaces: [shop]
        names: ["web*"]
`,
	exception: func(object map[string]any, e *policy.Exception) (l diag.List) {
		if e.Workload || e.ID().Group != exception.Exceptions.Group || e.Conditions != nil {
			return nil
		}
		x, _ := exception.Decode(object)
		for i, f := range slices.Concat(x.Spec.Match.Any, x.Spec.Match.All) {
			d := &f.ResourceDescription
			pods, controllers := false, false
			for _, kind := range d.Kinds {
				kind = kind[strings.LastIndexByte(kind, '/')+1:]
				pods, controllers = pods || kind == "Pod", controllers || autogen.IsController(kind)
			}
			if pods && controllers && slices.ContainsFunc(d.Names, func(n string) bool { return strings.HasSuffix(n, "*") && n != "*" }) {
				block := "any"
				if i >= len(x.Spec.Match.Any) {
					block, i = "all", i-len(x.Spec.Match.Any)
				}
				l.Warnf(fmt.Sprintf("spec.match.%s[%d].resources", block, i), "the exception names a controller and its Pods by wildcards, which also exempt other Pods of such names")
				l.Hint("name the controller only, and add the annotation %s: %s", family.ExceptionCovers, family.CoversWorkload)
			}
		}
		if len(l) > 0 {
			return l
		}
		for i, r := range x.Spec.Exceptions {
			if slices.ContainsFunc(r.RuleNames, func(n string) bool { return derives(r.RuleNames, n) }) {
				l.Warnf(fmt.Sprintf("spec.exceptions[%d].ruleNames", i), "the exception names a rule of %s and those that autogen derives from it, which covers also other rules of such names or misses some", r.PolicyName)
				l.Hint("name the authored rule only, and add the annotation %s: %s", family.ExceptionCovers, family.CoversWorkload)
			}
		}
		return l
	},
}

// derives reports whether a name stands for a rule and the rules that autogen derives from it, or for such a rule beside the authored one.
func derives(names []string, name string) bool {
	if strings.HasPrefix(name, "*") && name != "*" {
		return true
	}
	return slices.ContainsFunc(names, func(authored string) bool {
		controllers, cronJobs := autogen.Derived(authored)
		return name == controllers || name == cronJobs
	})
}
