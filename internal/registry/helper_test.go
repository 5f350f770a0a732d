package registry

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// installHelper installs a credential helper of docker that runs a shell script.
func installHelper(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-"+name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// within fails the test if a call takes longer than 15 seconds, which no call with a limit of a second does.
func within(t *testing.T, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); call() }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		t.Fatal("the call does not end")
	}
}

// A credential helper of docker's configuration that does not end holds up no request for longer than its time, and no other one afterwards.
func TestHelperOfTheConfigurationWithoutEnd(t *testing.T) {
	g := newGuarded(t, map[string]string{"process": "p"})
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("DOCKER_CONFIG", home)
	pid := filepath.Join(home, "pid")
	installHelper(t, "stuck", "echo $$ > "+pid+"; exec sleep 600")
	t.Cleanup(func() {
		var n int
		if text, err := os.ReadFile(pid); err == nil {
			if _, err := fmt.Sscan(string(text), &n); err == nil {
				if p, err := os.FindProcess(n); err == nil {
					_ = p.Kill()
				}
			}
		}
	})
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"credsStore":"stuck"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	client := registries(t, Options{Providers: []string{"default"}, Timeout: 4 * time.Second})
	for range 2 {
		within(t, func() {
			_, err := client.Image(t.Context(), world.ImageRequest{Reference: g.host + "/team/app:1"})
			if err == nil || !strings.Contains(err.Error(), "credentials of default are not available in time") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A credential helper of a cloud ends with the context, and its output is limited.
func TestHelperOfACloud(t *testing.T) {
	for _, c := range []struct {
		name, script string
		limit        time.Duration
		found        bool
	}{
		{"answers", `echo '{"Username":"jane","Secret":"s"}'`, time.Minute, true},
		{"does not end", "sleep 600", time.Second, false},
		{"writes without end", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			installHelper(t, "test", c.script)
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			within(t, func() {
				if _, found := fromProgram(ctx, "test", "example.com"); found != c.found {
					t.Errorf("a login is found: %t", found)
				}
			})
		})
	}
}
