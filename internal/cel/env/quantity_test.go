package env

import (
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// A quantity with a large exponent is too expensive. A word with an e in it is no quantity.
func TestMeasured(t *testing.T) {
	for text, want := range map[string]bool{
		"1e101": true, "-1.5E+999": true, "1e99999999999999999999": true, "1e-101": true,
		"1e100": false, "1E": false, "128Mi": false, "kube-": false, "node101": false, "release-1": false, "": false,
	} {
		if got := measured([]ref.Val{types.String(text)}, nil); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
