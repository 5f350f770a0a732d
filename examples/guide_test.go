package examples_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/internal/cli"
)

// A fence of the guide begins with its language, which may be followed by
//
//	file=NAME            the block is a file: the commands after it on the page find it under this name
//	unchecked="REASON"   nothing checks the block, for this reason
//	by="PATH"            another test runs the block
//
// A block "console" contains commands (`$ ephor …`) and their output; output of other programs is not compared. A block "sh" contains
// commands that need a cluster or a registry: their names and flags are checked. "yaml" contains policies, objects, tests or values of the
// chart. "text" is output, or a drawing.
type fence struct {
	page     string
	line     int
	language string
	info     map[string]string
	text     string
	from, to int // of the text, in the page
}

var (
	fenceLine = regexp.MustCompile("(?m)^ {0,3}```(.*)$")
	fenced3   = regexp.MustCompile("(?s)```.*?```")
	// inlineCommand is a command within a sentence.
	inlineCommand = regexp.MustCompile("`((?:bin/)?(?:ephor|kubectl ephor|helm install|helm upgrade|make) [^`]+)`")
	infoWord      = regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)
)

// fencesOf returns all fences of a page.
func fencesOf(t *testing.T, page, text string) (out []fence) {
	t.Helper()
	marks := fenceLine.FindAllStringSubmatchIndex(text, -1)
	if len(marks)%2 != 0 {
		t.Fatalf("%s: a fence does not end", page)
	}
	for i := 0; i < len(marks); i += 2 {
		f := fence{page: page, line: strings.Count(text[:marks[i][0]], "\n") + 1, from: marks[i][1] + 1, to: marks[i+1][0], info: map[string]string{}}
		if f.from > f.to {
			f.from = f.to
		}
		info := text[marks[i][2]:marks[i][3]]
		f.language, info, _ = strings.Cut(info, " ")
		for _, m := range infoWord.FindAllStringSubmatch(info, -1) {
			f.info[m[1]] = strings.Trim(m[2], `"`)
		}
		if rest := strings.TrimSpace(infoWord.ReplaceAllString(info, "")); rest != "" {
			t.Errorf("%s:%d: %q after the language is neither file=, unchecked= nor by=", page, f.line, rest)
		}
		f.text = text[f.from:f.to]
		out = append(out, f)
	}
	return out
}

// guidePages returns the pages whose fences are checked: all except those that the program generates from tested declarations.
func guidePages(t *testing.T) (out []string) {
	t.Helper()
	out = []string{"README.md", "CONTRIBUTING.md", "examples/README.md", "charts/ephor/README.md"}
	err := filepath.WalkDir("docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.ToSlash(path) == "docs/reference" {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			out = append(out, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every fence of the guide is run or checked, or gives the reason why it is not. With -update the output of commands is written into the
// pages.
func TestGuide(t *testing.T) {
	t.Chdir("..")
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, page := range guidePages(t) {
		t.Run(page, func(t *testing.T) {
			t.Chdir(root)
			b, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			text := string(b)
			fences := fencesOf(t, page, text)
			dir := pageFolder(t, root, fences)
			for _, m := range inlineCommand.FindAllStringSubmatch(fenced3.ReplaceAllString(text, ""), -1) {
				if w, err := words(m[1]); err != nil {
					t.Errorf("%s: %s: %v", page, m[1], err)
				} else if err := known(root, append(w, "value")); err != nil { // a flag may be named without its value
					t.Errorf("%s: `%s`: %v", page, m[1], err)
				}
			}
			for _, f := range slices.Backward(fences) { // from the end, so that positions stay valid while text is replaced
				if got := f.check(t, root, dir); got != f.text {
					text = text[:f.from] + got + text[f.to:]
				}
				counted[f.language]++
			}
			if *update && text != string(b) {
				if err := os.WriteFile(filepath.Join(root, page), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	for _, language := range []string{"console", "yaml", "sh"} {
		if counted[language] == 0 {
			t.Errorf("no fences of %s were found", language)
		}
	}
}

// pageFolder returns the folder in which the commands of a page run: the repository if the page has no files, and otherwise a folder with
// these files and the examples.
func pageFolder(t *testing.T, root string, fences []fence) string {
	t.Helper()
	dir := root
	for _, f := range fences {
		name := f.info["file"]
		if name == "" {
			continue
		}
		if dir == root {
			dir = t.TempDir()
			if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")); err != nil {
				t.Fatal(err)
			}
		}
		if !filepath.IsLocal(name) {
			t.Fatalf("%s:%d: the file %s is outside of the folder", f.page, f.line, name)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s:%d: two files %s", f.page, f.line, name)
		}
		if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// queried lists the pages whose queries e2e/metrics_test.go and e2e/rollout evaluate with Prometheus's engine.
var queried = []string{"docs/operating/metrics.md", "docs/operating/rollout.md"}

// check checks one fence and returns its correct text.
func (f *fence) check(t *testing.T, root, dir string) string {
	t.Helper()
	at := fmt.Sprintf("%s:%d", f.page, f.line)
	if reason, given := f.info["unchecked"]; given {
		if len(reason) < 10 {
			t.Errorf("%s: %q is no reason", at, reason)
		}
		return f.text
	}
	if by := f.info["by"]; by != "" {
		if _, err := os.Stat(filepath.Join(root, by)); err != nil {
			t.Errorf("%s: no test is there: %v", at, err)
		}
	}
	switch f.language {
	case "console":
		if f.info["by"] == "" {
			return f.console(t, root, dir)
		}
	case "sh":
		f.commands(t, root)
	case "yaml":
		f.documents(t, dir)
	case "json":
		if !json.Valid([]byte(f.text)) {
			t.Errorf("%s: no JSON", at)
		}
	case "promql":
		if !slices.Contains(queried, f.page) {
			t.Errorf("%s: no test evaluates the queries of this page", at)
		}
	case "text", "txt":
		if regexp.MustCompile(`(?m)^\$ `).MatchString(f.text) {
			t.Errorf("%s: commands belong into a block of console or sh", at)
		}
	default:
		t.Errorf("%s: the language %q is not one of console, sh, yaml, json, promql, text", at, f.language)
	}
	return f.text
}

// console runs the commands of a block and compares their output. A line "…" stands for lines that the page omits.
func (f *fence) console(t *testing.T, root, dir string) string {
	t.Helper()
	t.Chdir(dir)
	parts := strings.Split("\n"+f.text, "\n$ ")
	if strings.TrimSpace(parts[0]) != "" || len(parts) < 2 {
		t.Errorf("%s:%d: a block of console begins with a command", f.page, f.line)
		return f.text
	}
	var out strings.Builder
	for _, part := range parts[1:] {
		command, want, _ := strings.Cut(part, "\n")
		words, err := words(command)
		if err == nil && len(words) > 0 {
			err = known(root, words)
		}
		if err != nil || len(words) == 0 {
			t.Errorf("%s:%d: %q: %v", f.page, f.line, command, err)
			return f.text
		}
		want = strings.Trim(want, "\n")
		got := want
		if words[0] == "ephor" {
			got, _ = run(words[1:]...)
		}
		switch {
		case *update && !strings.Contains("\n"+want+"\n", "\n…\n"):
			want = got
		case !shows(got, want):
			t.Errorf("%s:%d: $ %s\ndoes not print\n%s\nbut\n%s", f.page, f.line, command, want, got)
		}
		fmt.Fprintf(&out, "$ %s\n", command)
		if want != "" {
			fmt.Fprintf(&out, "%s\n", want)
		}
	}
	if !*update {
		return f.text
	}
	return out.String()
}

// shows reports whether a text equals the part of it that a page shows.
func shows(got, want string) bool {
	parts := strings.Split("\n"+want+"\n", "\n…\n")
	rest := "\n" + got + "\n"
	for i, p := range parts {
		p = strings.Trim(p, "\n")
		at := strings.Index(rest, "\n"+p+"\n")
		if p == "" {
			continue
		}
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		rest = rest[at+len(p)+1:]
	}
	return parts[len(parts)-1] == "" || strings.Trim(rest, "\n") == "" || strings.Trim(parts[len(parts)-1], "\n") == ""
}

// words splits a shell command into words. It understands quotes and backslashes, and expands nothing.
func words(command string) (out []string, err error) {
	var word strings.Builder
	quote, inside := rune(0), false
	runes := []rune(command)
	for i := 0; i < len(runes); i++ {
		switch c := runes[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'' || quote == '"' && c != '\\':
			word.WriteRune(c)
		case c == '\\' && i+1 < len(runes):
			i++
			word.WriteRune(runes[i])
			inside = true
		case c == '\'' || c == '"':
			quote, inside = c, true
		case c == ' ' || c == '\t':
			if inside {
				out = append(out, word.String())
			}
			word.Reset()
			inside = false
		case c == '#' && !inside:
			return out, nil
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is open")
	}
	if inside {
		out = append(out, word.String())
	}
	return out, nil
}

// others are programs that the guide calls and whose arguments are not checked.
var others = strings.Fields("aws az cat cd chmod cosign curl docker etcdctl export flux argocd git gcloud go brew diff dpkg jq kind ln oc openssl rpm sh sha256sum sudo skopeo hack/helm.sh hack/bare.sh")

var verbs = strings.Fields("annotate api-resources apply auth create delete describe edit explain get label logs patch port-forward replace rollout run scale set top version wait kustomize")

// commands checks the commands of a block: those of ephor with their flags, targets of make, values of the chart.
func (f *fence) commands(t *testing.T, root string) {
	t.Helper()
	text := strings.ReplaceAll(f.text, "\\\n", " ")
	heredoc := ""
	for _, line := range strings.Split(text, "\n") {
		if heredoc != "" {
			if line == heredoc {
				heredoc = ""
			}
			continue
		}
		if _, end, ok := strings.Cut(line, "<<'"); ok {
			heredoc, _, _ = strings.Cut(end, "'")
		}
		w, err := words(line)
		if err != nil {
			t.Errorf("%s:%d: %q: %v", f.page, f.line, line, err)
			continue
		}
		for len(w) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(w[0]) {
			w = w[1:]
		}
		if at := slices.IndexFunc(w, func(s string) bool {
			return slices.Contains([]string{"|", ">", "&&", ">>", "&"}, s) || strings.HasPrefix(s, ">")
		}); at >= 0 {
			w = w[:at]
		}
		if len(w) == 0 {
			continue
		}
		if err := known(root, w); err != nil {
			t.Errorf("%s:%d: %s: %v", f.page, f.line, line, err)
		}
	}
}

// known returns an error if a command cannot work.
func known(root string, w []string) error {
	switch program := filepath.Base(w[0]); {
	case program == "ephor" && len(w) > 2 && w[1] == "controller":
		flags, err := os.ReadFile(filepath.Join(root, "docs", "reference", "flags.md"))
		if err == nil && !strings.Contains(string(flags), "\n## controller "+w[2]+"\n") {
			err = fmt.Errorf("there is no controller %s", w[2])
		}
		return err
	case program == "ephor":
		return knownFlags(w[1:])
	case program == "kubectl" && len(w) > 1 && w[1] == "ephor":
		return knownFlags(w[2:])
	case program == "kubectl":
		for _, word := range w[1:] {
			if slices.Contains(verbs, word) {
				return nil
			}
		}
		return fmt.Errorf("kubectl has no such verb")
	case program == "make":
		file, err := os.ReadFile(filepath.Join(root, "Makefile"))
		if err != nil {
			return err
		}
		if len(w) > 1 && !strings.Contains(string(file), "\n"+w[1]+":") {
			return fmt.Errorf("the Makefile has no target %s", w[1])
		}
	case program == "helm":
		return knownValues(root, w[1:])
	case !slices.Contains(others, program) && !slices.Contains(others, w[0]):
		return fmt.Errorf("%s is not known to this test", w[0])
	}
	return nil
}

// knownFlags returns an error for a command of the command line, or a flag, that does not exist.
func knownFlags(args []string) error {
	cmd, rest, err := cli.NewRoot().Find(args)
	if err != nil {
		return err
	}
	if !cmd.Runnable() && len(args) > 0 {
		return fmt.Errorf("%s is no command", strings.Join(args, " "))
	}
	cmd.InitDefaultHelpFlag()
	return cmd.ParseFlags(rest)
}

// knownValues returns an error for values that the chart rejects, and for folders that do not exist.
func knownValues(root string, args []string) error {
	chart := charts.Ephor
	for i, a := range args {
		if name, ok := strings.CutPrefix(a, "charts/"); ok {
			chart = name
			if _, err := os.Stat(filepath.Join(root, a)); err != nil {
				return err
			}
		}
		if i == 0 || args[i-1] != "--set" && args[i-1] != "--set-string" {
			continue
		}
		for _, pair := range strings.Split(a, ",") {
			name, value, _ := strings.Cut(pair, "=")
			if strings.Contains(name, "crds.annotations.") || strings.Contains(name, "[") {
				continue // keys that contain dots, and elements of lists
			}
			given := map[string]any{}
			var v any = value
			if args[i-1] == "--set" {
				_ = yaml.Unmarshal([]byte(value), &v)
			}
			keys := strings.Split(name, ".")
			m := given
			for _, key := range keys[:len(keys)-1] {
				below := map[string]any{}
				m[key], m = below, below
			}
			m[keys[len(keys)-1]] = v
			if err := refused(chart, given); err != nil {
				return err
			}
		}
	}
	return nil
}

// refused returns an error for values that the chart rejects.
func refused(chart string, given map[string]any) error {
	values, _, err := charts.Values(chart, given)
	if err != nil || len(values) == 0 {
		return err
	}
	return fmt.Errorf("the chart refuses %s: %s", values[0].Path, values[0].Reason)
}

// documents checks the YAML of a block: policies with lint, Kubernetes objects by their types, and documents without a kind as values of the
// chart.
func (f *fence) documents(t *testing.T, dir string) {
	t.Helper()
	at := fmt.Sprintf("%s:%d", f.page, f.line)
	policies := false
	for _, text := range regexp.MustCompile(`(?m)^---$`).Split(f.text, -1) {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		kind, _ := object["kind"].(string)
		version, _ := object["apiVersion"].(string)
		group, _, _ := strings.Cut(version, "/")
		switch {
		case len(object) == 0:
		case kind == "" && version == "":
			if err := refused(charts.Ephor, object); err != nil {
				t.Errorf("%s: neither an object nor values of the chart: %v", at, err)
			}
		case group == "kyverno.io" || group == "policies.kyverno.io":
			policies = true
		case group == "cli.kyverno.io" && f.info["file"] == "" && !strings.HasPrefix(f.text, "# examples/"):
			t.Errorf("%s: a file of tests or values needs file=, and a command that reads it", at)
		case group != "cli.kyverno.io":
			if err := typed([]byte(text), version, kind); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
	}
	if !policies {
		return
	}
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if out, code := run("lint", path); code != 0 {
		t.Errorf("%s: %s", at, out)
	}
}

// typed returns an error for fields that the type of an object does not have. Custom kinds need an unchecked block.
func typed(text []byte, version, kind string) error {
	for known, of := range scheme.Scheme.AllKnownTypes() {
		if known.GroupVersion().String() != version || known.Kind != kind {
			continue
		}
		object, err := scheme.Scheme.New(known)
		if err != nil {
			return fmt.Errorf("%v: %w", of, err)
		}
		return yaml.UnmarshalStrict(text, object)
	}
	return fmt.Errorf("%s %s is no kind of Kubernetes", version, kind)
}
