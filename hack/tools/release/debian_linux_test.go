package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asRoot lets a command run as root, within a folder if it is not empty. An ordinary user becomes root in a user namespace.
func asRoot(folder string) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Chroot: folder}
	if os.Geteuid() != 0 {
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attributes
}

// dpkg installs the Debian package into a root without any other file. The program runs there, the package's files match its digests, and
// purging it leaves nothing.
func TestDebian(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("there is no dpkg")
	}
	try := exec.Command("true")
	try.SysProcAttr = asRoot("")
	if err := try.Run(); err != nil {
		t.Skipf("only root may change the root: %v", err)
	}
	dir, _ := written(t)
	root := t.TempDir()
	for _, file := range []string{"status", "available"} {
		write(t, filepath.Join(root, "var/lib/dpkg", file), "")
	}
	for _, folder := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := func(arguments ...string) string {
		t.Helper()
		// An ordinary user has no ldconfig in PATH; the package needs none.
		cmd := exec.Command("dpkg", append([]string{"--root=" + root, "--force-bad-path"}, arguments...)...)
		cmd.SysProcAttr = asRoot("")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
		return string(out)
	}
	ephor := func(arguments ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(arguments[0], arguments[1:]...)
		cmd.SysProcAttr, cmd.Dir, cmd.Env = asRoot(root), "/", []string{"PATH=/usr/bin"}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("%s: %v", strings.Join(arguments, " "), err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}

	t.Log(dpkg("--install", filepath.Join(dir, fmt.Sprintf("ephor_%s-1_%s.deb", packageVersion(version), runtime.GOARCH))))
	if out := dpkg("--status", "ephor"); !strings.Contains(out, "Status: install ok installed") || !strings.Contains(out, "Version: "+packageVersion(version)+"-1\n") {
		t.Errorf("%s", out)
	}
	if out := dpkg("--audit") + dpkg("--verify", "ephor"); out != "" {
		t.Errorf("dpkg finds fault with the package:\n%s", out)
	}
	for _, program := range []string{"/usr/bin/ephor", "/usr/bin/kubectl-ephor"} {
		out, code := ephor(program, "version")
		if code != 0 || !strings.Contains(out, version) {
			t.Errorf("%s: exit code %d\n%s", program, code, out)
		}
		t.Logf("%s version:\n%s", program, out)
	}
	if given != "" {
		const example = "../../../examples/library/disallow-latest-tag"
		for _, file := range []string{"policy.yaml", "good.yaml", "bad.yaml"} {
			write(t, filepath.Join(root, file), string(read(t, example, file)))
		}
		for resource, want := range map[string]int{"/good.yaml": 0, "/bad.yaml": 1} {
			if out, code := ephor("/usr/bin/ephor", "apply", "/policy.yaml", "--resource", resource); code != want {
				t.Errorf("ephor apply of %s: exit code %d\n%s", resource, code, out)
			}
		}
	}

	dpkg("--purge", "ephor")
	err := filepath.WalkDir(filepath.Join(root, "usr"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			t.Errorf("%s remains", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
