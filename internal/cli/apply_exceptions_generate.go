package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/report"
	"github.com/ephor-dev/ephor/internal/value"
)

// defaultExceptionTTL is how long generated exceptions are to live: thirty days.
const defaultExceptionTTL = 720 * time.Hour

// labelTTL makes the cleanup controller delete an object after its value.
const labelTTL = "cleanup.kyverno.io/ttl"

// writeExceptions prints an exception for every failure of a cluster-scoped policy.
func writeExceptions(w io.Writer, entries []report.Entry, ttl time.Duration, asJSON bool) error {
	for i := range entries {
		e := &entries[i]
		if e.Status != policy.StatusFail || e.Program.Namespace != "" {
			continue
		}
		text := []byte(value.JSON(exceptionFor(e, ttl)))
		if !asJSON {
			var err error
			if text, err = yaml.JSONToYAML(text); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "---\n%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// exceptionFor exempts the resource of the failure from the rule that failed. A rule generated for pod controllers is
// excepted together with the authored rule and the pods that the controller makes.
func exceptionFor(e *report.Entry, ttl time.Duration) map[string]any {
	kinds, rules, names := []any{e.Resource.Kind}, []any{e.Rule.Name}, []any{e.Resource.Name}
	if e.Rule.Origin.IsAutogen() {
		if e.Rule.Origin.Controllers == "autogen-cronjob" {
			kinds = append(kinds, "Job")
			rules = append(rules, "autogen-"+e.Rule.Origin.Parent)
		}
		kinds = append(kinds, "Pod")
		rules = append(rules, e.Rule.Origin.Parent)
		names = append(names, e.Resource.Name+"-*")
	}
	resources := map[string]any{"kinds": kinds, "names": names}
	if e.Resource.Namespace != "" {
		resources["namespaces"] = []any{e.Resource.Namespace}
	}
	spec := map[string]any{
		"exceptions": []any{map[string]any{"policyName": e.Program.Name, "ruleNames": rules}},
		"match":      map[string]any{"all": []any{map[string]any{"resources": resources}}},
	}
	return map[string]any{
		"apiVersion": "kyverno.io/v2beta1",
		"kind":       "PolicyException",
		"metadata": map[string]any{
			"name":   exceptionName(e.Program.Name, e.Rule.Name, e.Resource.Namespace, e.Resource.Name),
			"labels": map[string]any{labelTTL: ttl.String()},
		},
		"spec": spec,
	}
}

// exceptionName joins the parts with dashes. What an object's name may not hold, such as the blanks of a rule's name,
// becomes a dash too.
func exceptionName(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '-'
	}, strings.ToLower(strings.Join(kept, "-")))
	const longest = 253
	if len(name) > longest {
		name = name[:longest]
	}
	return strings.Trim(name, "-.")
}
