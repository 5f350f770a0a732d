package soak

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// memoryGroup is a memory cgroup with the limit that the chart gives to a container. The kernel kills a process in it that needs more.
type memoryGroup struct{ dir, limit, peak string }

// confine moves a process into a memory cgroup of its own with a limit in bytes. What the process uses before does not count on most kernels,
// so confine it when it starts. It needs root, and the memory controller of cgroup v1 or v2.
func confine(t testing.TB, name string, pid, limit int) *memoryGroup {
	t.Helper()
	g, err := newMemoryGroup(name)
	if err == nil {
		t.Cleanup(func() {
			_ = os.WriteFile(filepath.Join(filepath.Dir(g.dir), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600) // it ends later
			if err := os.Remove(g.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Logf("the cgroup remains: %v", err)
			}
		})
		err = errors.Join(g.write(g.limit, limit), g.write("cgroup.procs", pid))
	}
	if err != nil {
		t.Fatalf("this part needs a memory cgroup, as root: %v", err)
	}
	return g
}

func newMemoryGroup(name string) (*memoryGroup, error) {
	name = "ephor-soak-" + name + "-" + strconv.Itoa(os.Getpid())
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && fields[1] == "memory" {
			g := &memoryGroup{filepath.Join("/sys/fs/cgroup/memory", fields[2], name), "memory.limit_in_bytes", "memory.max_usage_in_bytes"}
			if err := os.Mkdir(g.dir, 0o755); err != nil {
				return nil, err
			}
			_ = g.write("memory.move_charge_at_immigrate", 3) // kernels that still can move what the process has already
			return g, nil
		}
	}
	g := &memoryGroup{filepath.Join("/sys/fs/cgroup", name), "memory.max", "memory.peak"}
	if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0o600); err != nil {
		return nil, err
	}
	return g, os.Mkdir(g.dir, 0o755)
}

func (g *memoryGroup) write(file string, n int) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.Itoa(n)), 0o600)
}

// peakMB returns the most memory that the group has used, in MB. It includes pages of files, which the kernel drops before it kills.
func (g *memoryGroup) peakMB(t testing.TB) float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n / 1e6
}
