package devcluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Root finds the repository's root: the nearest folder at or above the working directory with devcluster/go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "devcluster", "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("the development control plane is built from a checkout of Ephor, and %s is not inside one", dir)
		}
	}
}

// Build compiles the control plane of the selected version unless it exists and is up to date, and returns the path of the binary. It reports
// progress every ten seconds, since the first build takes minutes. Several processes may call it at once: one builds, the others wait.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	r, err := selected()
	if err != nil {
		return "", err
	}
	return r.build(ctx, progress)
}

func (r release) build(ctx context.Context, progress io.Writer) (string, error) {
	if err := os.MkdirAll(filepath.Dir(r.bin), 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(r.bin + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	stamp, err := r.sourceHash()
	if err != nil {
		return "", err
	}
	if got, err := os.ReadFile(r.bin + ".stamp"); err == nil && string(got) == stamp {
		if _, err := os.Stat(r.bin); err == nil {
			return r.bin, nil
		}
	}
	if err := r.compile(ctx, progress); err != nil {
		return "", fmt.Errorf("the development control plane (etcd, kube-apiserver, kube-controller-manager) could not be built on this machine: %w", err)
	}
	return r.bin, os.WriteFile(r.bin+".stamp", []byte(stamp), 0o644)
}

func (r release) compile(ctx context.Context, progress io.Writer) error {
	major, minor, _ := strings.Cut(strings.TrimPrefix(r.version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	flags := "-s -w"
	// Both packages have their own version stamp; without them kubectl refuses to talk to the server.
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s", pkg, r.version, pkg, major, pkg, minor)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-modfile="+r.modfile, "-ldflags", flags, "-o", r.bin, ".")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if progress != nil {
		fmt.Fprintln(progress, "Building the development control plane (once; 3 to 6 minutes on two cores) ...")
	}
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("go build: %w\n%s", err, lastLines(stderr.String(), 20))
			}
			if progress != nil {
				fmt.Fprintf(progress, "Built the development control plane in %s.\n", time.Since(start).Round(time.Second))
			}
			return nil
		case <-tick.C:
			if progress != nil {
				fmt.Fprintf(progress, "  ... still building (%s)\n", time.Since(start).Round(time.Second))
			}
		}
	}
}

// sourceHash identifies the sources of the binary, so that a change of devcluster/ causes a rebuild.
func (r release) sourceHash() (string, error) {
	h := sha256.New()
	sources, err := filepath.Glob(filepath.Join(r.source, "*.go"))
	if err != nil {
		return "", err
	}
	names := []string{r.modfile, strings.TrimSuffix(r.modfile, ".mod") + ".sum"}
	for _, path := range sources {
		names = append(names, filepath.Base(path))
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", name, len(b))
		h.Write(b)
	}
	io.WriteString(h, r.version)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// lockFile waits for an exclusive lock and takes it; the kernel releases it whenever and however the process ends.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
