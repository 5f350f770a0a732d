package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Neither the action nor install.sh downloads from a project without a home.
func TestNothingComesFromNoHome(t *testing.T) {
	const nowhere = "example.invalid/example" // not the project's own address, which `make home` changes
	script := filepath.Join(t.TempDir(), "install.sh")
	r := release{version: "1.2.3", url: "https://" + nowhere + "/releases/download/v1.2.3", home: map[string]string{"EPHOR_HOME": nowhere}, output: filepath.Dir(script)}
	if err := r.installer(); err != nil {
		t.Fatal(err)
	}
	// The action reads the home.env of its checkout.
	checkout := t.TempDir()
	action := filepath.Join(checkout, "action", "run.sh")
	text, err := os.ReadFile("../../../action/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(action), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{action: text, filepath.Join(checkout, "home.env"): []byte("EPHOR_HOME=" + nowhere + "\n")} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"curl": "#!/bin/sh\necho downloads \"$@\" >&2\nexit 1\n", "wget": "#!/bin/sh\necho downloads \"$@\" >&2\nexit 1\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"sh", script}, {"bash", action}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "EPHOR_URL=", "EPHOR_COMMAND=lint", "EPHOR_VERSION=1.2.3")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "EPHOR_URL") || strings.Contains(string(out), "downloads") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
