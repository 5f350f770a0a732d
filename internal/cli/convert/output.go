package convert

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/vapgen"
)

// The values of --target: where the output has to run.
const (
	toEphor   = "ephor"
	toKyverno = "kyverno"
	toNative  = "native"
)

// output returns the objects to write for the policies of a rule, and says where they run.
func (o *options) output(w io.Writer, where string, made []map[string]any) []map[string]any {
	switch o.target {
	case toKyverno:
		for _, one := range made {
			if only := onlyEphor(one); len(only) > 0 {
				fmt.Fprintf(w, "%s: needs Ephor: %s\n", where, strings.Join(only, "; "))
				return made
			}
		}
		fmt.Fprintf(w, "%s: runs in Kyverno, with %s\n", where, libraries(made))
	case toNative:
		var out []map[string]any
		for _, one := range made {
			objects, why := native(one)
			if why != "" {
				fmt.Fprintf(w, "%s: needs Ephor or Kyverno, with %s: %s\n", where, libraries(made), why)
				return made
			}
			out = append(out, objects...)
		}
		alone := "runs in the API server alone"
		if since := nativeSince(out); since > kubeversion.Oldest {
			alone += ", of Kubernetes " + since.String() + " or newer"
		}
		fmt.Fprintf(w, "%s: %s\n", where, alone)
		if annotations, _ := made[0]["metadata"].(map[string]any)["annotations"].(map[string]any); annotations[celpolicy.AllowExistingAnnotation] != nil {
			fmt.Fprintf(w, "%s: the API server also denies updates of objects that violated the policy before\n", where)
		}
		return out
	}
	return made
}

// nativeSince returns the oldest version of Kubernetes whose functions policies of the API server need.
func nativeSince(all []map[string]any) kubeversion.Minor {
	since := kubeversion.Oldest
	for _, one := range all {
		if kind, _ := one["kind"].(string); strings.HasSuffix(kind, "Binding") {
			continue
		}
		for since < kubeversion.Newest {
			_, diags := compile.Written(compile.Object{Value: one}, family.Permissions{Server: since})
			if !diags.HasErrors() {
				break
			}
			since++
		}
	}
	return since
}

// onlyEphor returns what of a policy has an effect in Ephor only.
func onlyEphor(made map[string]any) (out []string) {
	metadata, _ := made["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, names.Domain) {
			out = append(out, "the annotation "+name)
		}
	}
	spec := value.JSON(made["spec"])
	if strings.Contains(spec, `"replicationcontrollers"`) {
		out = append(out, "replicationcontrollers among the Pod controllers")
	}
	if strings.Contains(spec, "extractPayloads(") {
		out = append(out, "the function extractPayloads")
	}
	return out
}

// librariesOf finds the calls of functions that the API server does not have.
var librariesOf = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(resource|http|globalContext|generator|hash|json|yaml|gzip|time|random|x509|image|images)\.\w+|\b(image)\(|\b(verifyImageSignatures|verifyAttestationSignatures|extractPayloads?)\(`)
})

// libraries describes the libraries of CEL that policies use.
func libraries(made []map[string]any) string {
	found := map[string]bool{}
	for _, one := range made {
		for _, m := range librariesOf().FindAllStringSubmatch(value.JSON(one["spec"]), -1) {
			name := m[1] + m[2]
			if m[3] != "" {
				name = "imageverify"
			}
			found[strings.TrimSuffix(name, "s")] = true
		}
	}
	if len(found) == 0 {
		return "no library but those of the API server"
	}
	return "the libraries " + strings.Join(slices.Sorted(maps.Keys(found)), ", ")
}

// native returns the policies of the API server with their bindings that do the same as a policy, or why there are none.
func native(made map[string]any) (out []map[string]any, why string) {
	alone := vapgen.AloneOf(made)
	for _, part := range alone.Parts {
		policy, binding := written(part.Policy, part.Source, ""), written(part.Binding, part.Source, "-binding")
		spec, _ := part.Source["spec"].(map[string]any)
		if failure, ok := spec["failurePolicy"]; ok {
			policy["spec"].(map[string]any)["failurePolicy"] = failure
		}
		binding["spec"].(map[string]any)["policyName"] = policy["metadata"].(map[string]any)["name"]
		out = append(out, policy, binding)
	}
	return out, alone.Reason
}

// written returns a translated object as a user would write it: with the name, the labels and the annotations of its policy.
func written(object, of map[string]any, suffix string) map[string]any {
	out := maps.Clone(object)
	metadata := maps.Clone(of["metadata"].(map[string]any))
	name, _ := metadata["name"].(string)
	metadata["name"] = name + suffix
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		kept := maps.Clone(annotations)
		maps.DeleteFunc(kept, func(k string, _ any) bool { return strings.HasPrefix(k, names.Domain) })
		if metadata["annotations"] = kept; len(kept) == 0 || suffix != "" {
			delete(metadata, "annotations")
		}
	}
	out["metadata"] = metadata
	delete(out, "status")
	return out
}
