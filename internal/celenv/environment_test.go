package celenv

import (
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"ephor.invalid/ephor/internal/kubeversion"
)

// declared lists the functions, overloads and macros of an environment.
func declared(env *cel.Env) (out []string) {
	for name, f := range env.Functions() {
		for _, o := range f.OverloadDecls() {
			out = append(out, name+" "+o.ID())
		}
	}
	for _, m := range env.Macros() {
		out = append(out, "macro "+m.MacroKey())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The base environment of each version has the same functions, overloads and macros as the API server's: an API server evaluates stored expressions
// with everything that its version knows, which a newer one accepts in new expressions.
func TestBase(t *testing.T) {
	for v := kubeversion.Oldest; v <= kubeversion.Newest; v++ {
		theirs := environment.MustBaseEnvSet(version.MajorMinor(1, uint(v))).NewExpressionsEnv()
		if a, b := declared(theirs), declared(base(v)); !slices.Equal(a, b) {
			t.Errorf("%s: the API server's:\n%q\nours:\n%q", v, a, b)
		}
	}
	theirs := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	if a, b := declared(theirs), declared(base(0)); !slices.Equal(a, b) {
		t.Errorf("newer versions change the environment: list them in changes. The API server's:\n%q\nours:\n%q", a, b)
	}
	if base(34) != base(36) || base(36) == base(37) {
		t.Error("versions with the same environment do not share it")
	}
}

// Every environment can be built, and has the libraries of its kind.
func TestEnvironments(t *testing.T) {
	for kind := Native; kind <= EnvoyChecks; kind++ {
		for _, d := range []Declarations{{Kind: kind}, {Kind: kind, Namespaced: true}, {Kind: kind, Mode: JSON}} {
			of := d.env()
			for _, l := range Libraries {
				for i := range l.Functions {
					f := &l.Functions[i]
					reached := slices.ContainsFunc(f.Overloads, func(o Overload) bool { return o.exists(d) })
					for _, name := range f.Names {
						if l := libraryOf[name]; of.HasFunction(name) != (l.In(kind) && reached) && name != "math.round" && kind != Native {
							t.Errorf("%+v: function %s of library %s: %v", d, name, l.Name, of.HasFunction(name))
						}
					}
				}
			}
		}
	}
}
