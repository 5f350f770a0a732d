package apply

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/pss"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/value"
)

// defaultExceptionTTL is the lifetime of generated exceptions: thirty days.
const defaultExceptionTTL = 720 * time.Hour

// labelTTL is the label that makes the cleanup controller delete an object after the given time.
const labelTTL = "cleanup.kyverno.io/ttl"

// writeExceptions prints an exception for every failure, in a request also of namespaced policies. It returns warnings about failures from which nothing
// can exempt.
func (o *options) writeExceptions(w io.Writer, entries []report.Entry) (diags diag.List, err error) {
	written, asJSON := map[string]bool{}, o.format == "json"
	for i := range entries {
		e := &entries[i]
		if e.Status != policy.StatusFail || e.Program.Namespace != "" && o.request == nil {
			continue
		}
		if e.Resource.Kind != "" && e.Resource.Name == "" { // an exception for it would be one for all objects that are created by generateName
			diags.Add(diag.Diagnostic{
				Severity: diag.Warning, Code: diag.Unchecked, Summary: "no exception is written for the policy " + e.Program.Key() + " and a " + e.Resource.Kind + " without a name",
				Hint: "give the object its metadata.name",
			})
			continue
		}
		object := exceptionFor(e, o.exceptionTTL)
		if k := o.families.Kinds().Owner(e.Program.APIVersion, e.Program.Kind); k != nil && !k.Rules {
			if k.Foreign || e.Resource.Kind == "" {
				diags.Add(diag.Diagnostic{
					Severity: diag.Warning, Code: diag.Unchecked, Summary: "no exception is written for the policy " + e.Program.Key() + " and " + e.Resource.String(),
					Hint: "there are exceptions from policies of Kyverno's groups only, for Kubernetes objects",
				})
				continue
			}
			object = exceptionInCEL(e, o.exceptionTTL)
		}
		if o.request != nil {
			o.request.complete(e, object)
		}
		text := []byte(value.JSON(object))
		if written[string(text)] {
			continue // a policy in CEL has one exception for all its failures of an object
		}
		written[string(text)] = true
		if !asJSON {
			if text, err = yaml.JSONToYAML(text); err != nil {
				return diags, err
			}
		}
		if !asJSON {
			text = append([]byte("---\n"), text...)
		}
		if _, err := fmt.Fprintf(w, "%s\n", text); err != nil {
			return diags, err
		}
	}
	return diags, nil
}

// exceptionInCEL returns an exception from a policy of policies.kyverno.io for the resource of the failure. If the policy covers the Pods
// of the resource, the exception does so, too.
func exceptionInCEL(e *report.Entry, ttl time.Duration) map[string]any {
	same := sameKindAndName(e)
	if e.Rule.Origin.Controllers != "" {
		kinds := "['Pod']"
		if e.Resource.Kind == "CronJob" {
			kinds = "['Job', 'Pod']"
		}
		same = "(" + same + " || object.kind in " + kinds + " && object.metadata.?name.orValue(object.metadata.?generateName.orValue('')).startsWith(" + strconv.Quote(e.Resource.Name+"-") + "))"
	}
	same += inItsNamespace(e)
	return map[string]any{
		"apiVersion": "policies.kyverno.io/v1",
		"kind":       "PolicyException",
		"metadata": map[string]any{
			"name":   exceptionName(e.Program.Name, strings.ToLower(e.Resource.Kind), e.Resource.Namespace, e.Resource.Name),
			"labels": map[string]any{labelTTL: ttl.String()},
		},
		"spec": map[string]any{
			"policyRefs":      []any{map[string]any{"kind": e.Program.Kind, "name": e.Program.Name}},
			"matchConditions": []any{map[string]any{"name": "the-object", "expression": same}},
		},
	}
}

// sameObject returns the condition that selects the resource of the failure.
func sameObject(e *report.Entry) string { return sameKindAndName(e) + inItsNamespace(e) }

func sameKindAndName(e *report.Entry) string {
	return "object.kind == " + strconv.Quote(e.Resource.Kind) + " && object.metadata.?name.orValue('') == " + strconv.Quote(e.Resource.Name)
}

func inItsNamespace(e *report.Entry) string {
	if e.Resource.Namespace == "" {
		return ""
	}
	return " && object.metadata.?namespace.orValue('') == " + strconv.Quote(e.Resource.Namespace)
}

// exceptionFor returns an exception that exempts the resource of the failure from the failed rule. For a rule generated
// for Pod controllers, it also covers the authored rule and the Pods that the controller creates.
func exceptionFor(e *report.Entry, ttl time.Duration) map[string]any {
	kinds, rules, names := []any{e.Resource.Kind}, []any{e.Rule.Name}, []any{e.Resource.Name}
	if e.Rule.Origin.IsAutogen() {
		if e.Rule.Origin.Controllers == "autogen-cronjob" {
			kinds = append(kinds, "Job")
			controllers, _ := autogen.Derived(e.Rule.Origin.Parent)
			rules = append(rules, controllers)
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
		"exceptions": []any{map[string]any{"policyName": e.Program.Key(), "ruleNames": rules}},
		"match":      map[string]any{"all": []any{map[string]any{"resources": resources}}},
	}
	if list := podSecurityControls(e.Properties["controlsJSON"]); len(list) > 0 {
		spec["podSecurity"] = list
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

// podSecurityControls returns exemptions from the controls that a podSecurity rule found violated: for the images of the
// Pod with any tag, and for the Pod itself if the control checks both.
func podSecurityControls(found string) []any {
	if found == "" {
		return nil
	}
	v, err := value.DecodeJSON([]byte(found))
	list, ok := v.([]any)
	if err != nil || !ok {
		return nil
	}
	scopes := map[string]string{}
	for _, c := range pss.Controls() {
		scopes[c.Name] = c.Images
	}
	var out []any
	seen := map[string]bool{}
	for _, e := range list {
		control, _ := e.(map[string]any)
		name, _ := control["Name"].(string)
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		if scopes[name] != "required" {
			out = append(out, map[string]any{"controlName": name})
		}
		if images, _ := control["Images"].([]any); len(images) > 0 && scopes[name] != "forbidden" {
			out = append(out, map[string]any{"controlName": name, "images": anyTag(images)})
		}
	}
	return out
}

// dockerHub is the registry prefix that the images of a Pod may omit.
const dockerHub = "docker.io/"

// anyTag converts images to wildcards for all their tags and digests, with and without the prefix that the author of the Pod may omit.
func anyTag(images []any) []any {
	var out []any
	for _, i := range images {
		image, _ := i.(string)
		if at := strings.IndexByte(image, '@'); at >= 0 {
			image = image[:at]
		}
		if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
			image = image[:colon]
		}
		for _, pattern := range []string{image + "*", strings.TrimPrefix(image, dockerHub) + "*"} {
			if !slices.Contains(out, any(pattern)) {
				out = append(out, pattern)
			}
		}
	}
	return out
}

// exceptionName joins the parts with dashes. Characters that are invalid in object names, such as spaces in a rule
// name, also become dashes.
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
