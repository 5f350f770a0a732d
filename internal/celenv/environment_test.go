package celenv

import (
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The base environment has the same functions, overloads and macros as the API server's.
func TestBase(t *testing.T) {
	theirs := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	list := func(env *cel.Env) (out []string) {
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
	if a, b := list(theirs), list(base()); !slices.Equal(a, b) {
		t.Errorf("the API server's:\n%q\nours:\n%q", a, b)
	}
}

// Every environment can be built, and has the libraries of its kind.
func TestEnvironments(t *testing.T) {
	for kind := Native; kind <= EnvoyChecks; kind++ {
		for _, d := range []Declarations{{Kind: kind}, {Kind: kind, Namespaced: true}, {Kind: kind, Mode: JSON}} {
			env := d.env()
			for _, l := range Libraries {
				for i := range l.Functions {
					f := &l.Functions[i]
					reached := slices.ContainsFunc(f.Overloads, func(o Overload) bool { return o.exists(d) })
					for _, name := range f.Names {
						if of := libraryOf[name]; env.HasFunction(name) != (of.In(kind) && reached) && name != "math.round" && kind != Native {
							t.Errorf("%+v: function %s of library %s: %v", d, name, of.Name, env.HasFunction(name))
						}
					}
				}
			}
		}
	}
}
