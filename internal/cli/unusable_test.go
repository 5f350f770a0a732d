package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// unusableRuns are the runs of each command that reads files, with IN for the file or folder without anything in it that the command is for.
var unusableRuns = map[string][]string{
	"apply":              {"apply IN -r pod.yaml", "apply policy.yaml -r IN", "apply policy.yaml -r pod.yaml -e IN", "apply policy.yaml -r pod.yaml -f IN", "apply policy.yaml -r pod.yaml -u IN"},
	"convert":            {"convert IN", "convert IN --prove", "convert policy.yaml --samples 1 --tests IN --tests-to out", "convert policy.yaml --samples 1 --decisions IN"},
	"create exception":   nil,
	"decisions":          {"decisions -f IN", "decisions -f IN -o json"},
	"decisions export":   {"decisions export policy.yaml -f IN --as-test out", "decisions export IN -f records.jsonl --as-test out"},
	"exceptions check":   {"exceptions check -f IN"},
	"exceptions import":  {"exceptions import -f IN"},
	"exceptions list":    {"exceptions list -f IN", "exceptions list -f IN -o json"},
	"exceptions request": {"exceptions request -f IN -p policy.yaml --reason r --owner o", "exceptions request -f pod.yaml -p IN --reason r --owner o"},
	"exceptions show":    {"exceptions show e -f IN"},
	"exceptions stale":   {"exceptions stale -f IN"},
	"explain":            {"explain IN -r pod.yaml", "explain policy.yaml -r IN", "explain policy.yaml -r pod.yaml -e IN"},
	"fix policy":         {"fix policy IN"},
	"fix test":           {"fix test IN"},
	"impact":             {"impact IN --requests IN", "impact policy.yaml --requests IN", "impact policy.yaml --decisions IN", "impact policy.yaml --audit-log IN"},
	"jp query":           {"jp query -i IN a"},
	"lint":               {"lint IN"},
	"oci push":           {"oci push IN -i registry.invalid/policies:1"},
	"report":             {"report -f IN", "report -f IN -o json"},
	"rollout":            {"rollout require-team -f IN", "rollout require-team -f reports.yaml --decisions IN"},
	"test":               {"test IN"},
	"why":                {"why uid -f IN"},
	"verify":             {"verify --bundle IN --artifact pod.yaml --key IN"},
	"jp parse":           {"jp parse -f IN"},
}

// readNothing are the commands that read no files of users, or only a cluster, a registry or a store.
var readNothing = []string{
	"adopt", "cleanup preview", "completion", "controller", "create", "decisions erase", "docs", "exceptions rotate-key", "help", "jp function", "migrate", "oci pull", "preflight", "schema", "uninstall",
	"unlock", "version",
}

// oddInputs are files that no command can use.
var oddInputs = map[string]string{
	"nul.yaml":     "apiVersion: v1\nkind: Pod\x00\nmetadata: {name: x}\n",
	"latin.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: caf\xe9}\n",
	"binary.yaml":  "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\xff\xfe",
	"list.yaml":    "- a\n- b\n",
	"text.yaml":    "hello\n",
	"numbers.yaml": "apiVersion: 1\nkind: 2\nmetadata: x\nspec: y\n",
	"tabs.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: c\n",
	"deep.json":    strings.Repeat("{\"a\":", 20_000) + "1" + strings.Repeat("}", 20_000),
	"cut.json":     "{\"apiVersion\": \"v1\", \"kind\": \"Config",
	"crlf.yaml":    "\ufeffapiVersion: v1\r\nkind: ConfigMap\r\nmetadata: {name: c}\r\n",
}

// Each command says in a sentence on standard error, or as a finding, that its input has nothing for it, or cannot be read: silence would look
// like success. No Go is spoken.
func TestUnusableInput(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("KUBECONFIG", "/nonexistent")
	write(t, "policy.yaml", ruled("require-team", requiresTeam))
	write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop, labels: {team: a}}\n")
	write(t, "reports.yaml", "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata: {name: r, namespace: shop}\nresults: []\n")
	write(t, "records.jsonl", "{}\n")
	write(t, "empty.yaml", "")
	write(t, "comments.yaml", "# nothing\n---\n# yet\n")
	write(t, "others.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\n")
	write(t, "folder/readme.txt", "no manifests\n")
	inputs := []string{"empty.yaml", "comments.yaml", "others.yaml", "folder"}
	for name, text := range oddInputs {
		write(t, name, text)
		inputs = append(inputs, name)
	}
	inputs = append(inputs, "missing.yaml", "pod.yaml/within.yaml")
	for _, name := range leaves(NewRoot()) {
		free := slices.ContainsFunc(readNothing, func(f string) bool { return name == f || strings.HasPrefix(name, f+" ") })
		if _, ok := unusableRuns[name]; !ok && !free {
			t.Errorf("the command %q has no row in unusableRuns: say how it reads an empty input", name)
		}
	}
	goWords := regexp.MustCompile(`\*?[a-z]+\.[A-Z]\w+\{|map\[|\[\]string|interface \{|nil pointer|panic|goroutine|unmarshal|\b(open|l?stat|read) \S+: |%!|(^|\s)(json|yaml): `)
	for name, runs := range unusableRuns {
		for _, run := range runs {
			for _, in := range inputs {
				if strings.HasPrefix(name, "jp ") && (in == "list.yaml" || in == "text.yaml") {
					continue // documents and expressions like any other
				}
				line := strings.ReplaceAll(run, "IN", in)
				stdout, stderr, code := runIn(t, strings.Fields(line)...)
				said := stderr
				if name == "lint" || name == "explain" {
					said += stdout // findings and "no match" are their answers
				}
				if len(strings.Fields(said)) < 4 {
					t.Errorf("ephor %s says nothing (exit %d)\n%s", line, code, stdout)
				}
				if found := goWords.FindString(stdout + stderr); found != "" {
					t.Errorf("ephor %s speaks Go (%q):\n%s%s", line, found, stdout, stderr)
				}
			}
		}
	}
}

// leaves returns the names of the commands that do something, without the program's name.
func leaves(c *cobra.Command) (out []string) {
	for _, sub := range c.Commands() {
		if !sub.HasSubCommands() || sub.Name() == "decisions" {
			out = append(out, strings.TrimPrefix(sub.CommandPath(), "ephor "))
		}
		out = append(out, leaves(sub)...)
	}
	return out
}
