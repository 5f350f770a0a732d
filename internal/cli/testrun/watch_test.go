package testrun

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// With --watch the tests run again when a file that they read changes, even outside of the folder, until the command is interrupted.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("policy.yaml", labelPolicy)
	write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n")
	write("tests/kyverno-test.yaml", "apiVersion: x\nkind: Test\npolicies: [../policy.yaml]\nresources: [../pod.yaml]\n"+
		"results: [{policy: need-label, rule: check, resources: [web], result: pass}]\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out shared
	root := New(nil)
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{filepath.Join(dir, "tests"), "--watch", "--remove-color"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	await := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !strings.Contains(out.String(), text); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q does not appear in\n%s", text, out.String())
			}
		}
	}
	await("Error: 1 tests failed\nWaiting for changes")
	write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: x}}\n")
	await("Test Summary: 1 tests passed and 0 tests failed")
	if err := os.Remove(filepath.Join(dir, "policy.yaml")); err != nil {
		t.Fatal(err)
	}
	await("failed to load the policies")
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("interrupted: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end when interrupted")
	}
}

// shared is a buffer for one writer and one reader.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
