package pss

import (
	"slices"
	"strconv"
	"strings"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/diag"
)

// Texts of the language reference §13.6, verbatim.
const (
	textImagesMissing   = "exclude.images must be specified for the container level control"
	textImagesForbidden = "exclude.images must not be specified for the pod level control"
	textOtherLevel      = "Invalid control name defined at the given level"
	textValuesMissing   = "values is required"
	textFieldMissing    = "restrictedField is required"
)

// CompileExclusions compiles a list of exclusions and finds the author's mistakes in it. The level is that of the rule;
// exceptions, whose level is not known before they meet a rule, give the empty level, which has all controls. The path is
// that of the list, such as spec.rules[0].podSecurity.exclude or spec.podSecurity.
func CompileExclusions(in []kyvernov1.PodSecurityStandard, level, path string) (Exclusions, diag.List) {
	var l diag.List
	out := make(Exclusions, len(in))
	for i := range in {
		out[i] = compileExclusion(&in[i])
		checkExclusion(&l, &in[i], level, path+"["+strconv.Itoa(i)+"]")
	}
	return out, l
}

func checkExclusion(l *diag.List, x *kyvernov1.PodSecurityStandard, level, path string) {
	invalid := func(why string) { l.Errorf(path+".controlName", "Invalid value: %q: %s", x.ControlName, why) }
	c := controlNamed(x.ControlName)
	switch {
	case c == nil:
		l.Errorf(path+".controlName", "Unsupported value: %q: supported values: %s", x.ControlName, quoted(controlNames()))
	case c.images == imagesRequired && len(x.Images) == 0:
		invalid(textImagesMissing)
		l.Hint("images: [\"*\"] exempts the containers of all images")
	case c.images == imagesForbidden && len(x.Images) > 0:
		invalid(textImagesForbidden)
	case level == LevelBaseline && c.level != LevelBaseline:
		invalid(textOtherLevel)
		l.Hint("the level %s does not check it", level)
	}
	switch {
	case x.RestrictedField != "" && len(x.Values) == 0:
		l.Errorf(path+".values", "Required value: %s", textValuesMissing)
		l.Hint("list the values of %s that are exempt", x.RestrictedField)
	case x.RestrictedField == "" && len(x.Values) > 0:
		l.Errorf(path+".restrictedField", "Required value: %s", textFieldMissing)
		l.Hint("name the field whose values are exempt, such as spec.containers[*].securityContext.capabilities.add")
	}
}

// CheckStandard finds mistakes in level and version, in the words of the API server. Empty ones are absent.
func CheckStandard(level, version, path string) diag.List {
	var l diag.List
	if level != "" && !slices.Contains(Levels(), level) {
		l.Errorf(path+".level", "Unsupported value: %q: supported values: %s", level, quoted(Levels()))
	}
	if version != "" && !slices.Contains(Versions(), version) {
		l.Errorf(path+".version", "Unsupported value: %q: supported values: %s", version, quoted(Versions()))
	}
	return l
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
