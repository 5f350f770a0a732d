package pss

import (
	"slices"
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
)

// These texts are copied verbatim from Kyverno.
const (
	textImagesMissing   = "exclude.images must be specified for the container level control"
	textImagesForbidden = "exclude.images must not be specified for the pod level control"
	textOtherLevel      = "Invalid control name defined at the given level"
	textValuesMissing   = "values is required"
	textFieldMissing    = "restrictedField is required"
)

// CompileExclusions compiles a list of exclusions and finds the author's mistakes in it. The level is that of the rule.
// Exceptions, whose level is unknown until they are joined to a rule, pass the empty level, which has all controls. The
// path is that of the list, such as spec.rules[0].podSecurity.exclude or spec.podSecurity.
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
	c := controlNamed(x.ControlName)
	switch {
	case c == nil:
		l.Unsupported(path+".controlName", x.ControlName, diag.Listed(controlNames()))
	case c.images == imagesRequired && len(x.Images) == 0:
		l.Invalid(path+".controlName", x.ControlName, textImagesMissing)
		l.Hint("images: [\"*\"] exempts the containers of all images")
	case c.images == imagesForbidden && len(x.Images) > 0:
		l.Invalid(path+".controlName", x.ControlName, textImagesForbidden)
		l.Hint("remove images: the control is about the whole Pod")
	case level == LevelBaseline && c.level != LevelBaseline:
		l.Invalid(path+".controlName", x.ControlName, textOtherLevel)
		l.Hint("the level %s does not check it", level)
	}
	switch {
	case x.RestrictedField != "" && len(x.Values) == 0:
		l.Required(path+".values", textValuesMissing)
		l.Hint("list the values of %s that are exempt", x.RestrictedField)
	case x.RestrictedField == "" && len(x.Values) > 0:
		l.Required(path+".restrictedField", textFieldMissing)
		l.Hint("name the field whose values are exempt, such as spec.containers[*].securityContext.capabilities.add")
	}
}

// CheckStandard finds mistakes in level and version, with the API server's texts. Empty values count as absent.
func CheckStandard(level, version, path string) diag.List {
	var l diag.List
	if level != "" && !slices.Contains(Levels(), level) {
		l.Unsupported(path+".level", level, diag.Listed(Levels()))
	}
	if version != "" && !slices.Contains(Versions(), version) {
		l.Unsupported(path+".version", version, diag.Listed(Versions()))
	}
	return l
}
