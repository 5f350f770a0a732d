package source

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Files that are found in a directory must be regular: a pipe without a writer does not hang the command, and an endless device
// does not exhaust the memory.
func TestT12OnlyRegularFiles(t *testing.T) {
	dir := write(t, map[string]string{"good.yaml": object + "good\n"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil {
		t.Skip(err)
	}
	for name, target := range map[string]string{"zero.yaml": "/dev/zero", "link.yaml": "good.yaml"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	objects, diags := Load([]string{dir}, Options{})
	if got := names(objects); strings.Join(got, " ") != "good good" { // by its name and by the link
		t.Errorf("%v", got)
	}
	for _, name := range []string{"pipe.yaml", "zero.yaml"} {
		if !strings.Contains(diags.Error(), name+": this is not a regular file") {
			t.Errorf("%s: %v", name, diags)
		}
	}
	if _, diags := Load([]string{"/dev/zero"}, Options{}); !strings.Contains(diags.Error(), "/dev/zero: this is not a regular file") {
		t.Errorf("a device that is named: %v", diags)
	}
}

// A pipe that the user names is read, as from a shell's <(command).
func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	go func() { _ = os.WriteFile(path, []byte(object+"piped\n"), 0o600) }()
	objects, diags := Load([]string{path}, Options{})
	if got := names(objects); len(got) != 1 || got[0] != "piped" {
		t.Errorf("%v %v", got, diags)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Sizes are bounded: a file's before it is read, and that of a stream while it is read.
func TestT12Sizes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxFile+1); err != nil { // it takes no space on the disk
		t.Fatal(err)
	}
	if _, diags := Load([]string{path}, Options{}); !strings.Contains(diags.Error(), "larger than 256 MiB") {
		t.Errorf("a large file: %v", diags)
	}
	if _, err := readAll(zeros{}, 1<<20); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("a stream that never ends: %v", err)
	}
}
