package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// program is a signing program, at the version that made the committed images.
type program struct{ name, version, module, pkg string }

var allPrograms = []program{
	{"cosign2", "v2.6.5", "github.com/sigstore/cosign/v2", "cmd/cosign"},
	{"cosign3", "v3.1.3", "github.com/sigstore/cosign/v3", "cmd/cosign"},
	{"notation", "v1.3.2", "github.com/notaryproject/notation", "cmd/notation"},
	{"oras", "v1.3.6", "oras.land/oras", "cmd/oras"},
	{"timestamp-server", "v2.1.3", "github.com/sigstore/timestamp-authority/v2", "cmd/timestamp-server"},
}

// findPrograms returns the path of each program by its name. It builds missing ones, one after the other and with low
// priority: a build of cosign takes two minutes and 1.5 GB of memory.
func findPrograms(ctx context.Context, dir string) (map[string]string, error) {
	found := map[string]string{}
	for _, p := range allPrograms {
		path := filepath.Join(dir, p.name+"-"+p.version)
		if _, err := os.Stat(path); err != nil {
			start := time.Now()
			fmt.Printf("Building %s %s ...\n", p.name, p.version)
			if err := p.build(ctx, path); err != nil {
				return nil, fmt.Errorf("build %s %s: %w", p.name, p.version, err)
			}
			fmt.Printf("Built %s in %s.\n", p.name, time.Since(start).Round(time.Second))
		}
		found[p.name] = path
	}
	return found, nil
}

// build builds the program in a module that requires nothing else, so that its own choice of versions applies; `go
// install` needs the list of the module's versions, which not every proxy has.
func (p program) build(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	module, err := os.MkdirTemp("", "ephor-signatures-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(module)
	text := fmt.Sprintf("module build\n\ngo 1.26.0\n\nrequire %s %s\n", p.module, p.version)
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte(text), 0o644); err != nil {
		return err
	}
	// The final name appears only when the program is complete.
	args := []string{"go", "build", "-mod=mod", "-p", "1", "-trimpath", "-ldflags", "-s -w", "-o", path + ".part", p.module + "/" + p.pkg}
	if nice, err := exec.LookPath("nice"); err == nil {
		args = append([]string{nice, "-n", "10"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return os.Rename(path+".part", path)
}
