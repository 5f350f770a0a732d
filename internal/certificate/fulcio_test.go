package certificate

import "testing"

// Extensions have names or numbers. The number of a kind of subject, and numbers that Fulcio does not use, are rejected.
func TestFulcioExtension(t *testing.T) {
	for name, want := range map[string]string{
		"oidcIssuer": "1.3.6.1.4.1.57264.1.1", "githubWorkflowRef": "1.3.6.1.4.1.57264.1.6", "1.3.6.1.4.1.57264.1.8": "1.3.6.1.4.1.57264.1.8", "1.3.6.1.4.1.57264.1.22": "1.3.6.1.4.1.57264.1.22",
		"1.3.6.1.4.1.57264.1.7": "", "1.3.6.1.4.1.57264.1.23": "", "1.3.6.1.4.1.57264.1.0": "", "1.3.6.1.4.1.57264.1.x": "", "1.2.3": "", "": "", "githubworkflowref": "",
	} {
		oid, ok := FulcioExtension(name)
		if got := oid.String(); got != want || ok != (want != "") {
			t.Errorf("%q: %s, %t", name, got, ok)
		}
	}
}
