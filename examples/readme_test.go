package examples_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// README has as many policies as it says. Its policy refuses its Pod with the message that it shows, and its
// commands for a checkout say what they should.
func TestReadme(t *testing.T) {
	t.Chdir("..")
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"policy.yaml": fenced(readme, "yaml")[0],
		// What kubectl run makes of its arguments.
		"pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: default, labels: {run: web}}\nspec: {containers: [{name: web, image: \"nginx:1.27\"}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reference, err := os.ReadFile("docs/reference/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(reference), "\n| `"); !strings.Contains(readme, fmt.Sprintf(" has %d policies, each ", n)) {
		t.Errorf("README does not say that there are %d policies", n)
	}
	refusal := fenced(readme, "console")[0]
	if !strings.HasPrefix(refusal, "$ kubectl run web --image=nginx:1.27\n") || !strings.Contains(refusal, "resource Pod/default/web was blocked") {
		t.Errorf("this is not about the Pod web:\n%s", refusal)
	}
	message := regexp.MustCompile(`(?m)^require-team:\n  label-team: '(.*)'$`).FindStringSubmatch(refusal)
	out, code := run("apply", filepath.Join(dir, "policy.yaml"), "-r", filepath.Join(dir, "pod.yaml"))
	if message == nil || code != 1 || !strings.Contains(out, "\n1 - label-team "+message[1]+"\n") {
		t.Errorf("README shows\n%s\nand the policy says (exit code %d)\n%s", refusal, code, out)
	}
	var commands []string
	for line := range strings.Lines(strings.Join(fenced(readme, "sh"), "")) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/ephor "); ok {
			commands = append(commands, command)
		}
	}
	for _, c := range []struct{ command, says string }{{"apply ", "An image needs a tag other than latest, or a digest."}, {"test ", " and 0 tests failed"}} {
		if len(commands) == 0 || !strings.HasPrefix(commands[0], c.command) {
			t.Fatalf("the next command of README does not begin with %s: %q", c.command, commands)
		}
		if out, _ := run(strings.Fields(commands[0])...); !strings.Contains(out, c.says) {
			t.Errorf("ephor %s does not say %q:\n%s", commands[0], c.says, out)
		}
		commands = commands[1:]
	}
}
