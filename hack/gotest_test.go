package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGotest runs gotest.sh on a module whose tests fail in the way that the case describes.
func TestGotest(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	script, err := filepath.Abs("gotest.sh")
	if err != nil {
		t.Fatal(err)
	}
	const (
		passes = "func TestPasses(t *testing.T) {}\n"
		// A test that fails only the first time.
		once = "func TestNAME(t *testing.T) { if _, err := os.Stat(\"NAME\"); err != nil { os.WriteFile(\"NAME\", nil, 0o600); t.Fatal(\"the first time\") } }\n"
	)
	failsOnce := func(name string) string { return strings.ReplaceAll(once, "NAME", name) }
	for name, c := range map[string]struct {
		tests  string
		passes bool
		noted  string // the text that is appended to FAILED_ONCE
	}{
		"all pass":             {tests: passes, passes: true},
		"one fails once":       {tests: passes + failsOnce("A"), passes: true, noted: "example.com/m TestA\n"},
		"two fail once":        {tests: failsOnce("A") + failsOnce("B"), passes: true, noted: "example.com/m TestA\nexample.com/m TestB\n"},
		"three fail once":      {tests: failsOnce("A") + failsOnce("B") + failsOnce("C")},
		"one fails twice":      {tests: passes + "func TestFails(t *testing.T) { t.Fatal() }\n"},
		"one fails, one twice": {tests: failsOnce("A") + "func TestFails(t *testing.T) { t.Fatal() }\n", noted: "example.com/m TestA\n"},
		"a panic":              {tests: "func TestA(t *testing.T) { if _, err := os.Stat(\"A\"); err != nil { os.WriteFile(\"A\", nil, 0o600); panic(\"first\") } }\n"},
		"a race that is found": {tests: "func TestA(t *testing.T) { if _, err := os.Stat(\"A\"); err != nil { os.WriteFile(\"A\", nil, 0o600); os.Stdout.WriteString(\"WARNING: DATA RACE\\n\"); t.Fatal() } }\n"},
		"a build that fails":   {tests: "func TestA(t *testing.T) { undefined() }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, content string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("go.mod", "module example.com/m\n\ngo 1.26\n")
			write("m_test.go", "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Stat\n\n"+c.tests)
			noted := filepath.Join(t.TempDir(), "noted")
			cmd := exec.Command("bash", script, "-count=1 -timeout 1m", ".")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "FAILED_ONCE="+noted, "GOFLAGS=", "CGO_ENABLED=0")
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.passes {
				t.Errorf("passes: %v, want %v\n%s", err == nil, c.passes, out)
			}
			if got, _ := os.ReadFile(noted); string(got) != c.noted {
				t.Errorf("noted %q, want %q\n%s", got, c.noted, out)
			}
		})
	}
}
