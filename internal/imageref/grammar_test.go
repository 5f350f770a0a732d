package imageref

import (
	"regexp"
	"strings"
	"testing"
)

// grammar is the regular expression of the distribution project, with the maximum lengths of digests.
var grammar = regexp.MustCompile(`^((?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?)/` +
	`([a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)(?::([\w][\w.-]{0,127}))?(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,128}))?$`)

// FuzzGrammar compares the parser with the regular expression.
func FuzzGrammar(f *testing.F) {
	hex := strings.Repeat("0aF", 11)
	for _, s := range []string{
		"docker.io/nginx", "docker.io/library/nginx:1.25", "a.b:5000/x/y:v1@sha256:" + hex, "[::1]:443/a", "[fe80::1]/a/b", "[]/a", "[::1]x/a", "[::1]:/a",
		"A-b.C/a", "-a/b", "a-/b", "a..b/c", "a:/b", "a:1x/b", "a/b__c", "a/b___c", "a/b_-c", "a/b---c", "a/b.c_d", "a/b.", "a/.b", "a//b", "a/b/", "a/B", "a/",
		"/a", "a", "a/b:", "a/b:-x", "a/b:x.y-z_", "a/b:" + strings.Repeat("t", 128), "a/b:" + strings.Repeat("t", 129), "a/b:c:d", "a/b:c@d:e",
		"a/b@sha256:" + hex, "a/b@sha256:0", "a/b@a+b.c-d_e:" + hex, "a/b@a1+1b:" + hex, "a/b@+a:" + hex, "a/b@a+:" + hex, "a/b@:" + hex, "a/b@a" + hex, "a/b@a@a:" + hex,
		"a/b@sha512:" + strings.Repeat("0", 128), "a/b@sha512:" + strings.Repeat("0", 129), "a@b/c", "a/b@x/y:" + hex,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, ok := parse(s)
		want := grammar.FindStringSubmatch(s)
		if algorithm, _, _ := strings.Cut(r.Digest, ":"); len(algorithm) > maxAlgorithm || strings.HasSuffix(s, "\n") {
			return
		}
		if ok != (want != nil) {
			if _, digest, _ := strings.Cut(s, "@"); strings.IndexByte(digest, ':') > maxAlgorithm {
				return
			}
			t.Fatalf("%q: %v, want %v", s, ok, want)
		}
		if ok && (r.Registry != want[1] || r.Path != want[2] || r.Tag != want[3] || r.Digest != want[4]) {
			t.Errorf("%q: %+v, want %q", s, r, want)
		}
	})
}
