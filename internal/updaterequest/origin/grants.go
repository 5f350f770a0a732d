package origin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// kindPattern returns the kind of a grant with wildcards in place of variables.
func kindPattern(g policy.Grant) (apiVersion, kind string) {
	apiVersion, kind = asPattern(g.APIVersion), asPattern(g.Kind)
	if g.APIVersion != g.Kind {
		return apiVersion, kind
	}
	// For an entry of cloneList.kinds with variables, both fields hold the whole entry.
	if i := strings.LastIndexByte(kind, '/'); i >= 0 {
		return kind[:i], kind[i+1:]
	}
	return "*", "*"
}

// Fits reports whether the rule may generate the object. It compares the parts of the patterns without variables.
func Fits(r *policy.Rule, u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(r.Grants, func(g policy.Grant) bool {
		apiVersion, kind := kindPattern(g)
		return !g.Source && wildcard.Match(apiVersion, u.GetAPIVersion()) && wildcard.Match(kind, u.GetKind()) &&
			(g.Namespace == "" || wildcard.Match(asPattern(g.Namespace), u.GetNamespace())) &&
			(g.Name == "" || wildcard.Match(asPattern(g.Name), u.GetName()))
	})
}

var variables = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)\{\{.*\}\}`) })

// asPattern replaces variables by a wildcard. It also drops the text between two variables, because variables may be nested.
func asPattern(template string) string {
	if !strings.Contains(template, "{{") {
		return template
	}
	return variables().ReplaceAllString(template, "*")
}

// outputKind is a kind that a rule generates. guessed: the kind is a variable, and this is one of the kinds that match.
type outputKind struct {
	schema.GroupVersionKind
	guessed bool
}

// kindsOf returns the kinds that a rule generates. For a kind in a variable it returns all served kinds that match.
func (o *Objects) kindsOf(p *policy.Program, r *policy.Rule) ([]outputKind, error) {
	var out []outputKind
	seen := map[schema.GroupKind]bool{}
	add := func(k outputKind) {
		if !seen[k.GroupKind()] {
			seen[k.GroupKind()] = true
			out = append(out, k)
		}
	}
	for _, g := range r.Grants {
		apiVersion, kind := kindPattern(g)
		switch {
		case g.Source:
		case wildcard.Has(apiVersion+kind) && r.Generation != nil && r.Generation.Watched: // the record holds the kinds
		case !wildcard.Has(apiVersion + kind):
			add(outputKind{schema.FromAPIVersionAndKind(apiVersion, kind), false})
		default:
			found, err := o.Find(target(apiVersion, kind))
			if err != nil {
				return nil, fmt.Errorf("find the kinds that rule %s generates: %w", r.Name, err)
			}
			for _, gvk := range found {
				add(outputKind{gvk, true})
			}
		}
	}
	for _, gvk := range o.Record.Kinds(RuleOf(p, r)) {
		add(outputKind{gvk, false})
	}
	return out, nil
}

// target returns the target for patterns of kinds.
func target(apiVersion, kind string) policy.Target {
	group, version, named := strings.Cut(apiVersion, "/")
	switch {
	case apiVersion == "*":
		group, version = "*", "*"
	case !named:
		group, version = "", apiVersion
	}
	return policy.Target{Group: group, Version: version, Kind: kind}
}

// CopiesAll reports whether the rule only makes copies, which do not change with the policy. It returns false for a rule whose outputs are
// only known after an evaluation.
func CopiesAll(r *policy.Rule) bool {
	return len(r.Outputs) > 0 && !slices.ContainsFunc(r.Outputs, func(o policy.Output) bool { return !o.Copy })
}
