package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// checkers are the programs of hack/tools/releasecheck: their folder, built once.
var checkers = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(scratch, "bin")
	out, err := exec.Command("go", "build", "-C", "../releasecheck", "-o", bin+"/", "tool").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
})

// krew's own tool accepts the manifest and installs the plugin for every platform, and rejects an archive with another digest.
func TestKrew(t *testing.T) {
	dir, _ := written(t)
	bin, err := checkers()
	if err != nil {
		t.Fatal(err)
	}
	// The tool calls `kubectl krew install`.
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "kubectl"), []byte("#!/bin/sh\nshift\nKREW_NO_UPGRADE_CHECK=1 exec "+filepath.Join(bin, "krew")+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	published := regexp.MustCompile(`(?m)uri: https://.*/`)
	manifest := published.ReplaceAllString(string(read(t, dir, "krew.yaml")), "uri: "+server.URL+"/")
	validate := func(manifest string) (string, error) {
		file := filepath.Join(t.TempDir(), "ephor.yaml")
		write(t, file, manifest)
		cmd := exec.Command(filepath.Join(bin, "validate-krew-manifest"), "-manifest", file)
		cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := validate(manifest)
	if err != nil || !strings.Contains(out, fmt.Sprintf("all %d spec.platforms installed fine", len(shipped))) || strings.Contains(out, "exceeds") {
		t.Errorf("%v\n%s", err, out)
	}
	for what, other := range map[string]string{
		"checksum":      regexp.MustCompile(`sha256: [0-9a-f]{64}`).ReplaceAllString(manifest, "sha256: "+strings.Repeat("0", 64)),
		"no platforms":  manifest[:strings.Index(manifest, "  platforms:")],
		"no program":    strings.Replace(manifest, "bin: ephor\n", "bin: other\n", 1),
		"a description": strings.Replace(manifest, "shortDescription:", "short:", 1),
	} {
		if out, err := validate(other); err == nil {
			t.Errorf("%s: the tool accepts\n%s\n%s", what, other, out)
		}
	}
}

// The action installs the version that it is given, with the check of install.sh, and annotates the program's findings.
func TestAction(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test runs the Linux program")
	}
	needs(t, "curl")
	dir, _ := written(t)
	server := serve(t, dir, ".tar.gz")
	script, err := filepath.Abs("../../../action/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	repository := t.TempDir()
	const example = "../../../examples/library/disallow-latest-tag"
	for _, file := range []string{"policy.yaml", "good.yaml", "bad.yaml"} {
		write(t, filepath.Join(repository, file), string(read(t, example, file)))
	}
	action := func(from, command string, arguments ...string) (stdout, outputs string, code int) {
		t.Helper()
		temporary := t.TempDir()
		cmd := exec.Command("bash", script)
		cmd.Dir = repository
		cmd.Env = append(os.Environ(), "EPHOR_COMMAND="+command, "EPHOR_ARGUMENTS="+strings.Join(arguments, "\n"), "EPHOR_VERSION="+version, "EPHOR_URL="+server.URL+from,
			"EPHOR_SARIF="+filepath.Join(temporary, "ephor.sarif"), "RUNNER_TEMP="+temporary, "GITHUB_OUTPUT="+filepath.Join(temporary, "output"))
		out, _ := cmd.CombinedOutput()
		written, _ := os.ReadFile(filepath.Join(temporary, "output"))
		return string(out), string(written), cmd.ProcessState.ExitCode()
	}
	if out, outputs, code := action("", "lint", "policy.yaml"); code != 0 || strings.Contains(out, "::") || !strings.Contains(outputs, "findings=0\n") {
		t.Errorf("lint: exit code %d, outputs %q\n%s", code, outputs, out)
	}
	if out, outputs, code := action("/changed", "lint", "policy.yaml"); code != 1 || outputs != "" || !strings.Contains(out, "nothing was installed") {
		t.Errorf("a changed archive: exit code %d, outputs %q\n%s", code, outputs, out)
	}
	if given == "" {
		return
	}
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("there is no jq")
	}
	if out, outputs, code := action("", "apply", "policy.yaml", "--resource", "good.yaml"); code != 0 || strings.Contains(out, "::") || !strings.Contains(outputs, "findings=0\n") {
		t.Errorf("good: exit code %d, outputs %q\n%s", code, outputs, out)
	}
	if out, outputs, code := action("", "apply", "policy.yaml", "--resource", "bad.yaml"); code != 1 || !strings.Contains(out, "\n::error file=bad.yaml,line=") || !strings.Contains(outputs, "findings=2\n") {
		t.Errorf("bad: exit code %d, outputs %q\n%s", code, outputs, out)
	}
}

// ofHomebrew returns the platforms of the release on which Homebrew runs.
func ofHomebrew() []string {
	return slices.DeleteFunc(slices.Clone(shipped), func(p string) bool { return strings.HasPrefix(p, "windows/") })
}

// The formula is valid Ruby: it names the archive of each platform with its digest, installs the program, completions and manual pages, and
// its own test passes. testdata/formula.rb simulates Homebrew.
func TestFormula(t *testing.T) {
	ruby, err := exec.LookPath("ruby")
	if err != nil {
		t.Skip("there is no ruby")
	}
	dir, _ := written(t)
	formula := filepath.Join(dir, "ephor.rb")
	if out, err := exec.Command(ruby, "-wc", formula).CombinedOutput(); err != nil || string(out) != "Syntax OK\n" {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, p := range ofHomebrew() {
		system, arch, _ := strings.Cut(p, "/")
		prefix := t.TempDir()
		arguments := []string{"-w", "testdata/formula.rb", formula, system, arch, filepath.Join(dir, archiveName(version, p)), prefix}
		if p == runtime.GOOS+"/"+runtime.GOARCH {
			arguments = append(arguments, "test")
		}
		if out, err := exec.Command(ruby, arguments...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", p, err, out)
			continue
		}
		for _, file := range []string{
			"bin/ephor", "bin/kubectl-ephor", "etc/bash_completion.d/ephor", "share/zsh/site-functions/_ephor", "share/fish/vendor_completions.d/ephor.fish", "share/man/man1/ephor-apply.1",
		} {
			if info, err := os.Stat(filepath.Join(prefix, file)); err != nil || info.Size() == 0 {
				t.Errorf("%s: %s: %v", p, file, err)
			}
		}
		// Another file has another digest.
		other := filepath.Join(dir, "install.yaml")
		if out, err := exec.Command(ruby, "testdata/formula.rb", formula, system, arch, other, t.TempDir()).CombinedOutput(); err == nil || !strings.Contains(string(out), "SHA-256") {
			t.Errorf("%s: another file: %v\n%s", p, err, out)
		}
	}
}
