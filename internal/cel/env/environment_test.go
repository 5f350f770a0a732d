package env

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
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

//go:embed testdata/functions.tsv
var functionsTable string

// functionsOfServers returns the functions, overloads and macros of the API server of each version.
func functionsOfServers(t *testing.T) map[kubeversion.Minor][]string {
	t.Helper()
	out := map[kubeversion.Minor][]string{}
	for line := range strings.Lines(functionsTable) {
		var name string
		var first, last kubeversion.Minor
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if name = fields[0]; len(fields) != 3 {
			t.Fatalf("%q", line)
		}
		if _, err := fmt.Sscan(fields[1]+" "+fields[2], &first, &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for v := first; v <= last; v++ {
			out[v] = append(out[v], name)
		}
	}
	return out
}

// The base environment of each version has the same functions, overloads and macros as the API server's: an API server evaluates stored expressions
// with everything that its version knows, which a newer one accepts in new expressions.
func TestBase(t *testing.T) {
	servers := functionsOfServers(t)
	for v := kubeversion.Oldest; v <= kubeversion.Newest; v++ {
		theirs, ours := servers[v], declared(Base(v))
		for _, name := range theirs {
			if !slices.Contains(ours, name) {
				t.Errorf("%s: %s is missing", v, name)
			}
		}
		for _, name := range ours {
			if !slices.Contains(theirs, name) {
				t.Errorf("%s: %s does not exist there", v, name)
			}
		}
	}
	theirs := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	if a, b := declared(theirs), declared(Base(0)); !slices.Equal(a, b) {
		t.Errorf("newer versions change the environment: list them in changes. The API server's:\n%q\nours:\n%q", a, b)
	}
	if Base(34) != Base(36) || Base(36) == Base(37) {
		t.Error("versions with the same environment do not share it")
	}
}

// Every environment can be built, and has the libraries of its kind.
func TestEnvironments(t *testing.T) {
	for kind := Native; kind <= EnvoyChecks; kind++ {
		for _, d := range []Declarations{{Kind: kind}, {Kind: kind, Namespaced: true}, {Kind: kind, Mode: JSON}} {
			of := d.Env()
			for _, l := range Libraries {
				for i := range l.Functions {
					f := &l.Functions[i]
					reached := slices.ContainsFunc(f.Overloads, func(o Overload) bool { return o.exists(d) })
					for _, name := range f.Names {
						if l := LibraryOf[name]; of.HasFunction(name) != (l.In(kind) && reached) && name != "math.round" && kind != Native {
							t.Errorf("%+v: function %s of library %s: %v", d, name, l.Name, of.HasFunction(name))
						}
					}
				}
			}
		}
	}
}
