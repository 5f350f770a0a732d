package app

import "testing"

// Switches: the flag takes precedence over the environment. An empty text counts as unset in both.
func TestEnvSwitches(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  map[string]string
		want [4]bool // forceFailurePolicyIgnore, protectManagedResources, generateValidatingAdmissionPolicy, generateMutatingAdmissionPolicy
		fail string
	}{
		{want: [4]bool{false, false, true, false}},
		{args: []string{"--forceFailurePolicyIgnore", "--protectManagedResources=1"}, want: [4]bool{true, true, true, false}},
		{args: []string{"--forceFailurePolicyIgnore=", "--protectManagedResources=", "--generateValidatingAdmissionPolicy="}, want: [4]bool{false, false, true, false}},
		{env: map[string]string{envForceIgnore: "true", envProtect: "T", envGenerateNative: "false", envRequireMutating: "true"}, want: [4]bool{true, true, false, true}},
		{env: map[string]string{envForceIgnore: "", envProtect: "", envGenerateNative: ""}, want: [4]bool{false, false, true, false}},
		{
			args: []string{"--forceFailurePolicyIgnore=false", "--protectManagedResources=", "--generateValidatingAdmissionPolicy=true"},
			env:  map[string]string{envForceIgnore: "true", envProtect: "true", envGenerateNative: "false"}, want: [4]bool{false, true, true, false},
		},
		{env: map[string]string{envForceIgnore: "maybe"}, fail: envForceIgnore + `: "maybe" is neither true nor false`},
	} {
		f, fs := settingsOf(nameAdmission)
		if err := fs.Parse(append([]string{"--caSecretName=a", "--tlsSecretName=b"}, c.args...)); err != nil {
			t.Fatal(err)
		}
		err := f.complete(fs, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if c.fail != "" {
			if err == nil || err.Error() != c.fail {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if got := [4]bool{f.admission.forceIgnore, f.protectManaged, f.admission.generateNative, f.admission.requireMutating}; err != nil || got != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	if _, fs := settingsOf(nameAdmission); fs.Parse([]string{"--forceFailurePolicyIgnore=maybe"}) == nil {
		t.Error("a switch takes any word")
	}
	cleanup, fs := settingsOf(nameCleanup)
	if err := cleanup.complete(fs, func(name string) (string, bool) { return "true", name == envProtect }); err == nil || !cleanup.protectManaged {
		t.Errorf("the cleanup controller's: %v, %v", cleanup.protectManaged, err)
	}
}
