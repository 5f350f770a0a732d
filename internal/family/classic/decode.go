package classic

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/strict"
)

// Group is the API group of the family.
const Group = "kyverno.io"

// The kinds of the family.
const (
	ClusterPolicy = "ClusterPolicy"
	Policy        = "Policy"
)

// Owns reports whether the object belongs to the family, in any version.
func Owns(apiVersion, kind string) bool {
	return familyKinds.Owner(apiVersion, kind) != nil
}

// Decode decodes a ClusterPolicy or Policy of any served version into the hub type; its Kind distinguishes the two. Both kinds have the
// same fields. Unknown fields and values of the wrong type become diagnostics at their field paths, and everything else is decoded. The
// status belongs to the controllers and is not checked.
func Decode(object map[string]any) (*kyvernov1.ClusterPolicy, diag.List) {
	p := &kyvernov1.ClusterPolicy{}
	diags := strict.Decode(object, p)
	switch _, version, _ := strings.Cut(p.APIVersion, "/"); version {
	case "v1":
	case "v2beta1":
		// The hub has every field of v2beta1, and some that v2beta1 does not have.
		diags = strict.Decode(object, &kyvernov2beta1.ClusterPolicy{})
	default:
		diags.Errorf("apiVersion", "no version %q of %s in group %s", version, p.Kind, Group)
		diags.Hint("served versions are %s", strings.Join(versions, " and "))
	}
	out := diags[:0]
	for _, d := range diags {
		if meant := misplaced(d); meant != "" {
			d.Hint = meant
		}
		if d.Path != "status" && !strings.HasPrefix(d.Path, "status.") {
			out = append(out, d)
		}
	}
	return p, out
}

// owners are the fields of a rule, each with its own fields.
var owners = []struct {
	field string
	below []string
}{
	{"validate", []string{"pattern", "anyPattern", "deny", "podSecurity", "cel", "manifests", "message", "failureAction", "failureActionOverrides", "allowExistingViolations"}},
	{"mutate", []string{"patchStrategicMerge", "patchesJson6902", "targets", "mutateExistingOnPolicyUpdate"}},
	{"generate", []string{"synchronize", "clone", "cloneList", "data", "generateExisting", "orphanDownstreamOnPolicyDelete"}},
	{"match.any[].resources", []string{"kinds", "namespaces", "operations", "selector", "namespaceSelector"}},
	{"match", []string{"any", "all", "resources"}},
	{"validate.deny", []string{"conditions"}},
	{"verifyImages[]", []string{"imageReferences", "attestors", "attestations"}},
}

var ruleField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^spec\.rules\[\d+\]\.[^.\[]+$`) })

// misplaced returns a hint for an unknown field of a rule, or beside the rules, that belongs one level deeper; empty for others.
func misplaced(d diag.Diagnostic) string {
	if d.Code == diag.UnknownField && d.Name == "kinds" && strings.HasSuffix(d.Path, "].kinds") {
		return "it belongs under resources: indent it below that field"
	}
	if d.Code != diag.UnknownField {
		return ""
	}
	above := "" // the list of rules, for a field beside it
	switch {
	case ruleField().MatchString(d.Path):
	case d.Path == "spec."+d.Name:
		above = "rules[]."
	default:
		return ""
	}
	near := ""
	for _, o := range owners {
		if slices.Contains(o.below, d.Name) {
			return "it belongs under " + above + o.field + ": indent it below that field"
		}
		if name := strict.Nearest(d.Name, o.below); name != "" && near == "" {
			near = "did you mean " + name + " under " + above + o.field + "?"
		}
	}
	if above != "" && slices.Contains(ruleFields, d.Name) {
		return "it belongs under rules[]: indent it below a rule"
	}
	if d.Hint != "" { // the decoder knows a similar field beside it
		return ""
	}
	return near
}

// ruleFields are fields of a rule that authors write beside the list of rules.
var ruleFields = []string{"match", "exclude", "validate", "mutate", "generate", "verifyImages", "context", "preconditions"}

// namespaced reports whether p is a Policy.
func namespaced(p *kyvernov1.ClusterPolicy) bool { return p.Kind == Policy }
