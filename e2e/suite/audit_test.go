package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// check reports requests that no table lists, once for each type, and no others. An empty log is an error.
func TestUnlistedRequestsAreFound(t *testing.T) {
	line := func(user, verb, ref, uri string) string {
		return `{"verb":"` + verb + `","user":{"username":"system:serviceaccount:kyverno:` + user + `"},"userAgent":"ephor","requestURI":"` + uri + `","objectRef":` + ref + `,"responseStatus":{"code":200}}` + "\n"
	}
	for _, c := range []struct{ log, want string }{
		{line("kyverno-admission-controller", "get", `{"resource":"secrets","namespace":"kyverno","name":"s"}`, "/u"), ""},
		{line("kyverno-admission-controller", "get", `{}`, "/apis?timeout=32s"), ""},
		{
			line("kyverno-admission-controller", "patch", `{"resource":"secrets","namespace":"a","name":"one"}`, "/one") +
				line("kyverno-admission-controller", "patch", `{"resource":"secrets","namespace":"b","name":"two"}`, "/two"),
			`admission-controller: patch core secrets "two" in the namespace b (/two, answered with 200)`,
		},
		{line("kyverno-reports-controller", "update", `{"resource":"policies","subresource":"status","apiGroup":"kyverno.io","namespace":"a","name":"p"}`, "/p"), `update kyverno.io policies/status "p"`},
		{"", "holds no request"},
	} {
		a, err := newAudit()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.flags(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(a.dir, "audit.log"), []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		err = a.check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "\n") > 1) {
			t.Errorf("%s: %v, want %q", c.log, err, c.want)
		}
	}
}
