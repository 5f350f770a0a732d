package execute

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

var variables = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{.*\}\}`) })

// asPattern replaces variables by a wildcard. It also drops the text between two variables, because variables may be nested.
func asPattern(template string) string {
	if !strings.Contains(template, "{{") {
		return template
	}
	return variables().ReplaceAllString(template, "*")
}
