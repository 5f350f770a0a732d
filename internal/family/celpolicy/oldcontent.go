package celpolicy

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/policy"
)

// Part is a part of a policy, for OldContent.
type Part struct {
	Compile func(*celrule.Compiler)
	Texts   []string // its expressions
	// OnTarget: object is another object than that of the request.
	OnTarget bool
}

// ConditionsPart returns the part of match conditions.
func ConditionsPart(all []admissionregistrationv1.MatchCondition) Part {
	p := Part{Compile: func(c *celrule.Compiler) { c.Conditions(all, "") }}
	for i := range all {
		p.Texts = append(p.Texts, all[i].Expression)
	}
	return p
}

// OldContent returns which parts of a policy with deferred work read the content of the old object, or of a deleted one. Only policies about
// Secrets are examined: the content of other objects is stored with the work.
func OldContent(d env.Declarations, rule *policy.Rule, variables []admissionregistrationv1.Variable, conditions Part, others ...Part) policy.OldContent {
	if about, _ := policy.AboutSecrets(rule); !about {
		return policy.OldContent{}
	}
	deletes := slices.ContainsFunc(rule.Targets, policy.Target.Deletes)
	reads := func(p Part, deletes bool) bool {
		c := celrule.New(d, nil)
		c.Variables(used(variables, p.Texts), "")
		p.Compile(c)
		return c.ReadsContent(plugincel.OldObjectVarName, false) || deletes && c.ReadsContent(plugincel.ObjectVarName, p.OnTarget)
	}
	return policy.OldContentOf(rule, reads(conditions, deletes), func(deletes bool) bool {
		return slices.ContainsFunc(others, func(p Part) bool { return reads(p, deletes) })
	})
}

var ofVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bvariables\b(?:\s*\.\s*\??\s*(\w+))?`) })

// used returns the variables that texts use, directly or through others, in order.
func used(all []admissionregistrationv1.Variable, texts []string) []admissionregistrationv1.Variable {
	names := map[string]bool{}
	note := func(text string) {
		for _, m := range ofVariable().FindAllStringSubmatch(text, -1) {
			if names[m[1]] = true; m[1] == "" { // such as variables['a']
				for _, v := range all {
					names[v.Name] = true
				}
			}
		}
	}
	note(strings.Join(texts, "\n"))
	for i := len(all) - 1; i >= 0; i-- { // a variable reads those before it
		if names[all[i].Name] {
			note(all[i].Expression)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(v admissionregistrationv1.Variable) bool { return !names[v.Name] })
}
