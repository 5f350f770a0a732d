package celenv

import "testing"

// Every library has a description, and every function that has a price exists.
func TestLibraries(t *testing.T) {
	native, err := WithMutations(Declarations{Params: true}.env())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, l := range Libraries {
		if l.Name == "" || l.Doc == "" || seen[l.Name] {
			t.Errorf("incomplete or duplicate library %q", l.Name)
		}
		seen[l.Name] = true
		if l.options == nil && len(l.limits)+len(l.Functions)+len(l.searches) == 0 {
			t.Errorf("library %s declares nothing", l.Name)
		}
		for name := range l.limits {
			if !native.HasFunction(name) && !(Declarations{Kind: Validating}).env().HasFunction(name) {
				t.Errorf("library %s: there is no function %s", l.Name, name)
			}
		}
	}
}
