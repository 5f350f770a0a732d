package cli

import (
	"bytes"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const labelledPolicy = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: need-label}
spec:
  rules:
  - name: check
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: no label
      pattern: {metadata: {labels: {app: "?*"}}}
`

// TestT12GitURL: apply, lint and test read git repositories from a server on loopback, and tests in a repository can only
// name files of that repository.
func TestT12GitURL(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	root := t.TempDir()
	work := filepath.Join(root, "owner", "repo")
	for name, text := range map[string]string{
		"policies/p.yaml":   labelledPolicy,
		"deploy/pod.yaml":   "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n",
		"deploy/values.yml": "replicas: 1\n",
		"tests/kyverno-test.yaml": "apiVersion: x\nkind: Test\npolicies: [../policies/p.yaml]\nresources: [../deploy/pod.yaml]\n" +
			"results: [{policy: need-label, rule: check, resources: [web], result: fail}]\n",
		"tests/outside.yaml": "apiVersion: x\nkind: Test\npolicies: [../policies/p.yaml]\nresources: [../../gone/pod.yaml, " + filepath.Join(work, "deploy", "pod.yaml") + "]\n" +
			"results: [{policy: need-label, rule: check, resources: [web], result: fail}]\n",
		"tests/values.yaml": "apiVersion: x\nkind: Test\npolicies: [../policies/p.yaml]\nresources: [../deploy/pod.yaml]\nvariables: ../.git/config\n" +
			"results: [{policy: need-label, rule: check, resources: [web], result: fail}]\n",
		"tests/payload.yaml": "apiVersion: x\nkind: Test\npolicies: [../policies/p.yaml]\njsonPayloads: [../../gone/a.json]\nhttpPayloads: [../../gone/b.json]\nclusterResources: [cluster.yaml]\n" +
			"results: [{policy: need-label, rule: check, resources: [web], result: fail}]\n",
		"tests/cluster.yaml": "apiVersion: cli.kyverno.io/v1alpha1\nkind: ClusterResource\nspec: {crds: [../../gone/c.yaml]}\n",
	} {
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "x"}} {
		cmd := exec.Command(git, append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-C", work}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	server := httptest.NewServer(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}})
	defer server.Close()
	url := server.URL + "/owner/repo"
	pod := filepath.Join(work, "deploy", "pod.yaml")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"apply", url, "-r", pod}, 1, "policy need-label -> resource default/Pod/web failed:"},
		{[]string{"apply", url + "/policies", "-b", "main", "-r", pod}, 1, "Applying 3 policy rule(s) to 1 resource(s)..."},
		{[]string{"apply", url + "/gone", "-r", pod}, 1, "failed to clone the branch gone"},
		{[]string{"lint", url + "/policies", "-b", "main"}, 0, "1 policy: 0 errors,"},
		{[]string{"lint", url + "/gone"}, 1, "failed to clone the branch gone"},
		{[]string{"test", url}, 0, "Test Summary: 1 tests passed and 0 tests failed"},
		{[]string{"test", url + "/tests", "--git-branch", "main"}, 0, "Test Summary: 1 tests passed and 0 tests failed"},
		{[]string{"test", url, "-f", "outside.yaml"}, 1, "gone/pod.yaml: this path leads out of the repository"},
		{[]string{"test", url, "-f", "outside.yaml"}, 1, filepath.Join(work, "deploy", "pod.yaml") + ": this path leads out of the repository"},
		{[]string{"test", url, "-f", "values.yaml"}, 1, "this is git's own folder"},
		{[]string{"test", url, "-f", "payload.yaml"}, 1, "gone/a.json: this path leads out of the repository"},
		{[]string{"test", url, "-f", "payload.yaml"}, 1, "gone/b.json: this path leads out of the repository"},
		{[]string{"test", url, "-f", "payload.yaml"}, 1, "gone/c.yaml: this path leads out of the repository"},
		{[]string{"test", url + "/gone"}, 1, "failed to clone the branch gone"},
	} {
		var out bytes.Buffer
		cmd := NewRoot()
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if code := Main(append([]string{"ephor"}, c.args...), cmd); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, out.String())
		}
	}
}
