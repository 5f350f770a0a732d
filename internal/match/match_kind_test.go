package match

import (
	"testing"

	"ephor.invalid/ephor/internal/policy"
)

func TestParseKind(t *testing.T) {
	for _, c := range []struct {
		in                        string
		group, version, kind, sub string
	}{
		{"Pod", "*", "*", "Pod", ""},
		{"postgresql", "*", "*", "postgresql", ""}, // a kind may be lower case
		{"Pod/exec", "*", "*", "Pod", "exec"},
		{"Pod.exec", "*", "*", "Pod", "exec"},
		{"v1/Pod", "*", "v1", "Pod", ""},
		{"v1beta1/Ingress", "*", "v1beta1", "Ingress", ""},
		{"v2alpha12/X", "*", "v2alpha12", "X", ""},
		{"*/*", "*", "*", "*", "*"},
		{"*/scale", "*", "*", "*", "scale"},
		{"*/Deployment", "*", "*", "Deployment", ""},
		{"v1/Pod/exec", "*", "v1", "Pod", "exec"},
		{"v1/Pod.exec", "*", "v1", "Pod", "exec"},
		{"apps/v1/Deployment", "apps", "v1", "Deployment", ""},
		{"apps/*/Deployment", "apps", "*", "Deployment", ""},
		{"*/v1/Deployment", "*", "v1", "Deployment", ""},
		{"*/*/Deployment", "*", "*", "Deployment", ""},
		{"*/*/*", "*", "*", "*", "*"},
		{"apps/v1/Deployment/scale", "apps", "v1", "Deployment", "scale"},
		{"apps/v1/Deployment.scale", "apps", "v1", "Deployment", "scale"},
		{"*.example.com/v1/Foo", "*.example.com", "v1", "Foo", ""}, // only the last piece is split at its dot
		{"Deployment*", "*", "*", "Deployment*", ""},
		{"*", "*", "*", "*", ""},
	} {
		want := policy.Target{Group: c.group, Version: c.version, Kind: c.kind, Subresource: c.sub}
		got, err := ParseKind(c.in)
		if err != nil || got.Group != want.Group || got.Version != want.Version || got.Kind != want.Kind || got.Subresource != want.Subresource {
			t.Errorf("ParseKind(%q) = %+v, %v; want %+v", c.in, got, err, want)
		}
	}
	for _, bad := range []string{"", "/", "a//b", "Pod/", "/Pod", "apps/Deployment/scale", "a/b/c/d", "apps/v1/Deployment/scale/x",
		"apps/v1/Deployment/scale.x", "Pod.", ".exec", "apps/v1x/Deployment"} {
		if got, err := ParseKind(bad); err == nil {
			t.Errorf("ParseKind(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestIsVersion(t *testing.T) {
	for s, want := range map[string]bool{
		"*": true, "v1": true, "v12": true, "v1alpha1": true, "v1beta22": true,
		"": false, "v": false, "V1": false, "v1*": false, "v1gamma1": false, "v1alpha": false, "v1beta1x": false, "vPod": false,
	} {
		if got := isVersion(s); got != want {
			t.Errorf("isVersion(%q) = %v", s, got)
		}
	}
}

func FuzzParseKind(f *testing.F) {
	for _, s := range []string{"Pod", "*/*", "apps/v1/Deployment.scale", "a/b/c/d/e", "..", "//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseKind(s)
		if err == nil && (got.Group == "" || got.Version == "" || got.Kind == "") {
			t.Errorf("ParseKind(%q) = %+v has an empty part", s, got)
		}
	})
}
