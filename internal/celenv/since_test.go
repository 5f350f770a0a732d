package celenv

import (
	"errors"
	"testing"

	"ephor.invalid/ephor/internal/kubeversion"
)

// An expression that needs a newer version says which.
func TestSince(t *testing.T) {
	for _, c := range []struct {
		server     kubeversion.Minor
		expression string
		want       kubeversion.Minor
	}{
		{36, "object.spec.names.includes('a')", 37}, {30, "object.spec.names.includes('a')", 37}, {37, "object.spec.names.includes('a')", 0}, {0, "object.spec.names.includes('a')", 0},
		{31, "object.all(i, v, i < 3)", 32}, {32, "isSemver(object.version)", 33}, {33, "[1, 2].distinct().size() > 0", 34}, {30, "format.dns1123Label().validate(object.name).hasValue()", 31},
		{36, "object.spec.nonsense(", 0}, {36, "nonsense(object)", 0}, {36, "variables.text + 1 > 2", 0}, {36, "variables.text.includes('a') && variables.missing", 37},
	} {
		compiler := NewCompiler(Declarations{Server: c.server})
		if err := compiler.Variable("text", "'a'"); err != nil {
			t.Fatal(err)
		}
		_, err := compiler.Compile(c.expression, Bool)
		var mistake *CompileError
		got := kubeversion.Minor(0)
		if errors.As(err, &mistake) {
			got = mistake.Since
		}
		if got != c.want || (c.want != 0) != (mistake != nil && mistake.Newer() != "") {
			t.Errorf("%d: %s: %d, want %d (%v)", c.server, c.expression, got, c.want, err)
		}
	}
}
