package kubeversion_test

import (
	"testing"

	"ephor.invalid/ephor/internal/kubeversion"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]kubeversion.Minor{
		"1.36": 36, "v1.36": 36, "v1.36.3": 36, "1.36+": 36, "v1.37.2-eks-1": 37, "v1.38.0-beta.0": 38, "1.30.14": 30,
		"": 0, "1": 0, "2.1": 0, "1.x": 0, "1.-3": 0, "latest": 0, "1.0": 0, "1.999": 0, "1.": 0,
	} {
		got, err := kubeversion.Parse(text)
		if got != want && want != 0 || (err == nil) != (want != 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestKnown(t *testing.T) {
	for v, want := range map[kubeversion.Minor]kubeversion.Minor{0: 37, 30: 30, 36: 36, 37: 37, 38: 37} {
		if got := v.Known(); got != want {
			t.Errorf("%d: %d", v, got)
		}
	}
	if v := kubeversion.Minor(31).AtLeast(34); v != 34 {
		t.Error(v)
	}
	if v := kubeversion.Minor(0).AtLeast(34); v != 0 {
		t.Error(v)
	}
}
