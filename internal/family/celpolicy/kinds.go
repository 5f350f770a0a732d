package celpolicy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	names "ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/strict"
)

// Group is the API group of the families.
const Group = "policies.kyverno.io"

// NamespacedPrefix is the prefix of the names of namespaced kinds, as in NamespacedValidatingPolicy.
const NamespacedPrefix = "Namespaced"

// The served versions; the first is the stored one. The deprecated v1alpha1 has no namespaced kinds.
var (
	versions           = []string{"v1beta1", "v1", "v1alpha1"}
	namespacedVersions = []string{"v1beta1", "v1"}
)

// Kinds returns the cluster-wide kind that k describes, and its namespaced sibling.
func Kinds(k family.Kind) family.Kinds {
	k.Group, k.Versions = Group, versions
	namespaced := k
	namespaced.Kind, namespaced.Resource, namespaced.Short = NamespacedPrefix+k.Kind, strings.ToLower(NamespacedPrefix)+k.Resource, "n"+k.Short
	namespaced.Versions, namespaced.Namespaced = namespacedVersions, true
	if k.LabelPrefix != "" {
		namespaced.LabelPrefix = "n" + k.LabelPrefix
	}
	return family.Kinds{&k, &namespaced}
}

// Decode decodes an object of any served version into out, a policy of one of the kinds. Unknown fields and values of the wrong
// type become diagnostics at their field paths, and everything else is decoded. The status belongs to the controllers and is not
// checked.
func Decode(object map[string]any, out any, kinds family.Kinds) (diags diag.List) {
	for _, d := range strict.Decode(object, out) {
		if meant := misplaced(d); meant != "" {
			d.Hint = meant
		}
		if d.Path != "status" && !strings.HasPrefix(d.Path, "status.") {
			diags.Add(d)
		}
	}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if k := kinds.Of(Group, kind); k != nil {
		checkVersion(&diags, apiVersion, kind, k.Versions)
	}
	spec, _ := object["spec"].(map[string]any)
	constraints, _ := spec["matchConstraints"].(map[string]any)
	for _, field := range []string{"resourceRules", "excludeResourceRules"} {
		rules, _ := constraints[field].([]any)
		for i, rule := range rules {
			if rule, ok := rule.(map[string]any); ok {
				neverMatching(&diags, rule, "spec.matchConstraints."+field+"["+strconv.Itoa(i)+"]")
			}
		}
	}
	autogen, _ := spec["autogen"].(map[string]any)
	pods, _ := autogen["podControllers"].(map[string]any)
	unknownControllers(&diags, pods)
	if !strings.HasSuffix(kind, "ImageValidatingPolicy") { // whose lists the API server does not compare
		for _, list := range []string{"variables", "matchConditions", "conditions", "targetMatchConditions"} {
			duplicates(&diags, spec[list], "spec."+list)
		}
	}
	return diags
}

// duplicates reports elements of a list with the name of an earlier one, which the API server does not accept.
func duplicates(diags *diag.List, list any, path string) {
	elements, _ := list.([]any)
	seen := map[string]bool{}
	for i, e := range elements {
		element, _ := e.(map[string]any)
		name, _ := element["name"].(string)
		if name != "" && seen[name] {
			diags.Duplicate(path+"["+strconv.Itoa(i)+"].name", name)
		}
		seen[name] = true
	}
}

// unknownControllers warns of controllers for which nothing is generated.
func unknownControllers(diags *diag.List, settings map[string]any) {
	named, _ := settings["controllers"].([]any)
	for i, c := range named {
		name, ok := c.(string)
		if _, generated := controllerNamed(name); !ok || generated {
			continue
		}
		diags.Warnf("spec.autogen.podControllers.controllers["+strconv.Itoa(i)+"]", "nothing is generated for %q", name)
		known := slices.Collect(maps.Keys(controllers))
		slices.Sort(known)
		if near := strict.Nearest(names.Plural(name), known); near != "" {
			diags.Hint("did you mean %s?", near)
		} else {
			diags.Hint("other controllers are written as resource.version.group, such as rollouts.v1alpha1.argoproj.io")
		}
	}
}

// neverMatching warns of resources in a rule of the constraints that no request can have. The API server accepts them, but the policy would
// evaluate nothing.
func neverMatching(diags *diag.List, rule map[string]any, path string) {
	named, _ := rule["resources"].([]any)
	for i, r := range named {
		if r, ok := r.(string); ok && r != strings.ToLower(r) {
			name, sub, isSub := strings.Cut(r, "/")
			meant := names.Plural(name)
			if isSub {
				meant += "/" + strings.ToLower(sub)
			}
			diags.Warnf(path+".resources["+strconv.Itoa(i)+"]", "there is no resource %s: resources have small letters", r)
			diags.Hint("did you mean %s?", meant)
		}
	}
}

// owners are the fields of a spec that hold lists, each with the fields of its elements.
var owners = []struct {
	field string
	below []string
}{
	{"validations", []string{"expression", "message", "messageExpression", "reason"}},
	{"mutations", []string{"patchType", "applyConfiguration", "jsonPatch"}},
	{"matchConstraints", []string{"resourceRules", "excludeResourceRules", "namespaceSelector", "objectSelector", "matchPolicy"}},
	{"matchConstraints.resourceRules", []string{"apiGroups", "apiVersions", "operations", "resources"}},
}

// misplaced returns a hint for an unknown field of a spec that belongs one level deeper; empty for others.
func misplaced(d diag.Diagnostic) string {
	name, ok := strings.CutPrefix(d.Path, "spec.")
	if d.Code != diag.UnknownField || !ok || name != d.Name {
		return ""
	}
	for _, o := range owners {
		if slices.Contains(o.below, name) {
			return "it belongs under " + o.field + ": indent it below that field"
		}
	}
	return ""
}

func checkVersion(diags *diag.List, apiVersion, kind string, served []string) {
	if _, version, _ := strings.Cut(apiVersion, "/"); !slices.Contains(served, version) {
		diags.Errorf("apiVersion", "no version %q of %s in group %s", version, kind, Group)
		diags.Hint("served versions are %s", strings.Join(served, ", "))
	}
}
