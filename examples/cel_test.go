package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cli"
)

// The guides, from the root of the repository: their commands use paths from there.
const (
	celGuide     = "docs/policies/cel.md"
	convertGuide = "docs/policies/converting.md"
)

// fenced returns the blocks of a page in this language.
func fenced(page, language string) (out []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

// run returns the output of the command line, without spaces at the ends of lines.
func run(args ...string) (string, int) {
	var out bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&out)
	root.SetErr(&out)
	code := cli.Main(append([]string{"ephor"}, args...), root)
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n"), code
}

// Every command of the guides prints the output that they show. A line "…" stands for lines that a guide omits.
func TestCELGuideCommands(t *testing.T) {
	t.Chdir("..")
	testCommands(t, celGuide)
	testCommands(t, convertGuide)
}

func testCommands(t *testing.T, guide string) {
	page, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range fenced(string(page), "console") {
		for _, part := range strings.Split("\n"+block, "\n$ ephor ")[1:] {
			command, want, _ := strings.Cut(part, "\n")
			found++
			got, _ := run(strings.Fields(command)...)
			rest := got
			parts := strings.Split("\n"+strings.Trim(want, "\n")+"\n", "\n…\n")
			for i, p := range parts {
				p = strings.Trim(p, "\n")
				at := strings.Index(rest, p)
				if at < 0 || i == 0 && at > 0 {
					t.Errorf("ephor %s\ndoes not print\n%s\nbut\n%s", command, p, got)
					break
				}
				rest = rest[at+len(p):]
			}
			if p := strings.Trim(parts[len(parts)-1], "\n"); p != "" && !strings.HasSuffix(got, p) {
				t.Errorf("ephor %s\ndoes not end with\n%s\nbut prints\n%s", command, p, got)
			}
		}
	}
	if found == 0 {
		t.Errorf("%s: no commands were found", guide)
	}
}

// The manifests of the guide equal the files that it names, and the guide contains each policy of the examples.
func TestCELGuideFiles(t *testing.T) {
	t.Chdir("..")
	page, err := os.ReadFile(celGuide)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range fenced(string(page), "yaml") {
		name, body, _ := strings.Cut(block, "\n")
		path, ok := strings.CutPrefix(name, "# examples/cel/")
		if !ok {
			continue
		}
		found++
		text, err := os.ReadFile(filepath.Join("examples", "cel", path))
		if err != nil {
			t.Error(err)
		} else if strings.TrimSpace(string(text)) != strings.TrimSpace(body) {
			t.Errorf("%s is not the file %s:\n%s", celGuide, path, text)
		}
	}
	if found == 0 {
		t.Error("no files were found")
	}
	for _, path := range celPolicies(t) {
		if !strings.Contains(string(page), path) {
			t.Errorf("%s does not name %s", celGuide, path)
		}
	}
}

// lint reports nothing about the policies.
func TestCELPoliciesAreClean(t *testing.T) {
	t.Chdir("..")
	if out, code := run(append([]string{"lint"}, celPolicies(t)...)...); code != 0 || !strings.HasSuffix(out, "policies: 0 errors, 0 warnings") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// celPolicies returns the files of the policies.
func celPolicies(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob("examples/cel/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^kind: \w+Policy$`).Match(text) && !strings.Contains(string(text), "\nkind: NetworkPolicy\n") {
			out = append(out, filepath.ToSlash(path))
		}
	}
	if len(out) < 9 {
		t.Errorf("only %d policies were found", len(out))
	}
	return out
}
