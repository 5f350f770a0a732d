package rule

import (
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
)

// The verbs that work requires for its objects.
var (
	verbsChange      = []string{"get", "update"}
	verbsCreate      = []string{"get", "create"}
	verbsSynchronize = []string{"get", "create", "update", "delete"}
	verbsCopy        = []string{"get"}
	verbsCopyList    = []string{"get", "list"}
)

// grants returns the rights that the work of a rule needs; none if it has no work.
func grants(r *kyvernov1.Rule, path string) []policy.Grant {
	var out []policy.Grant
	switch {
	case r.Mutation != nil:
		for i := range r.Mutation.Targets {
			t := &r.Mutation.Targets[i]
			out = append(out, policy.Grant{
				APIVersion: t.APIVersion, Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, Verbs: verbsChange, Path: path + ".mutate.targets",
			})
		}
	case r.Generation != nil:
		g := r.Generation
		verbs := verbsCreate
		if g.Synchronize {
			verbs = verbsSynchronize
		}
		if hasPattern(&g.GeneratePattern) {
			out = patternGrants(&g.GeneratePattern, verbs, path+".generate")
		}
		for i := range g.ForEachGeneration {
			out = append(out, patternGrants(&g.ForEachGeneration[i].GeneratePattern, verbs, path+".generate.foreach["+strconv.Itoa(i)+"]")...)
		}
	}
	return out
}

func patternGrants(p *kyvernov1.GeneratePattern, verbs []string, path string) []policy.Grant {
	if !hasCloneList(p) {
		made, _, _ := strings.Cut(p.Kind, "/") // writing Policy/status writes a Policy
		out := []policy.Grant{{APIVersion: p.APIVersion, Kind: made, Namespace: p.Namespace, Name: p.Name, Verbs: verbs, Path: path}}
		if p.Clone != (kyvernov1.CloneFrom{}) {
			out = append(out, policy.Grant{
				APIVersion: p.APIVersion, Kind: made, Namespace: p.Clone.Namespace, Name: p.Clone.Name, Verbs: verbsCopy, Source: true, Path: path + ".clone",
			})
		}
		return out
	}
	var out []policy.Grant
	selector := ""
	if s := p.CloneList.Selector; s != nil {
		selector = s.String()
	}
	for _, k := range p.CloneList.Kinds {
		apiVersion, kind, ok := splitKind(k)
		if !ok { // the kind contains variables, or a mistake that is reported elsewhere
			apiVersion, kind = k, k
		}
		out = append(out,
			policy.Grant{APIVersion: apiVersion, Kind: kind, Namespace: p.Namespace, Verbs: verbs, Path: path},
			policy.Grant{
				APIVersion: apiVersion, Kind: kind, Namespace: p.CloneList.Namespace, Verbs: verbsCopyList, Source: true, Selector: selector, Path: path + ".cloneList",
			},
		)
	}
	return out
}
