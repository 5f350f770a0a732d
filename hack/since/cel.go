package main

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/kubeversion"
)

// celProgram prints the functions and macros with which an API server evaluates stored expressions.
//
//go:embed cel.go.txt
var celProgram string

// functions writes the functions, overloads and macros of the CEL environment of all versions, with the versions that have each of them. It builds
// a program for each version, with the modules of that version: they take most functions from the CEL library of that time, and the names of the
// versions in newer code do not say when the library added or removed one.
func functions() error {
	versions := map[string][]kubeversion.Minor{}
	for v := kubeversion.Oldest; v <= kubeversion.Newest; v++ {
		names, err := functionsOf(patches[v])
		if err != nil {
			return err
		}
		for _, name := range names {
			versions[name] = append(versions[name], v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		of := versions[name]
		first, last := of[0], of[len(of)-1]
		if int(last-first) != len(of)-1 {
			return fmt.Errorf("%s: versions between %s and %s lack it", name, first, last)
		}
		fmt.Printf("%s\t%d\t%d\n", name, first, last)
	}
	return nil
}

// functionsOf runs the program with the modules of one version.
func functionsOf(patch string) ([]string, error) {
	dir, err := os.MkdirTemp("", "ephor-since-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(celProgram), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module cel\n\ngo 1.26.0\n\nrequire k8s.io/apiserver "+patch+"\n"), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"run", "-trimpath", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go %s with k8s.io/apiserver %s: %w", strings.Join(args, " "), patch, err)
		}
		if args[0] == "run" {
			return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
		}
	}
	return nil, nil
}
