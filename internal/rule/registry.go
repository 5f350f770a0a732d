package rule

import (
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
)

// Kind is one kind of rule.
type Kind struct {
	Name  policy.RuleKind // the API field that the kind owns, such as validate.pattern
	Stage policy.Stage
	Doc   string // one or two sentences for the reference documentation
	// Owns reports whether the rule uses the field.
	Owns func(*kyvernov1.Rule) bool

	// compile returns the handler. It reports mistakes through the compiler. A nil handler, or a diagnostic of severity Error, makes the
	// rule broken.
	compile func(*compiler, *kyvernov1.Rule) handler
	// lifecycle, if set, is called with the finished rule and changes how it handles updates and deletions.
	lifecycle func(*kyvernov1.Rule, *policy.Rule)
	// skipOnDelete: the rule has no result for a DELETE request.
	skipOnDelete bool
	// allowExisting: violations that the old object already has may be tolerated.
	allowExisting bool
	// lean: the compiler knows all fields of the object that the rule reads (policy.Rule.Object).
	lean bool
}

// Field returns the API field that the kind owns, as a path below the rule.
func (k *Kind) Field() string { return string(k.Name) }

// group returns the first part of the field: validate, mutate, generate or verifyImages.
func (k *Kind) group() string {
	g, _, _ := strings.Cut(string(k.Name), ".")
	return g
}

// kinds is the frozen registry. If a rule has several fields of a group, the first one is used, as in Kyverno.
var kinds = freeze(
	validateManifests, validatePodSecurity, validateCEL,
	validateDeny, validatePattern, validateAnyPattern, validateForeach,
	mutateStrategicMerge, mutateJSONPatch, mutateForeach,
	generate, verifyImages,
)

func freeze(ks ...*Kind) []*Kind {
	seen := map[policy.RuleKind]bool{}
	for _, k := range ks {
		if k.Name == "" || k.Doc == "" || k.Stage == 0 || k.Owns == nil || k.compile == nil || seen[k.Name] {
			panic("rule: incomplete or duplicate registration of " + string(k.Name))
		}
		seen[k.Name] = true
	}
	return ks
}

// Kinds returns every rule kind, supported or not.
func Kinds() []*Kind { return append([]*Kind(nil), kinds...) }

// kindsOf returns the kinds whose field the rule uses, in order of precedence.
func kindsOf(r *kyvernov1.Rule) []*Kind {
	var out []*Kind
	for _, k := range kinds {
		if k.Owns(r) {
			out = append(out, k)
		}
	}
	return out
}
