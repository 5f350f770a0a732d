package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// goroutines matches source that starts goroutines, or imports a library that does and calls back.
var goroutines = regexp.MustCompile(`(?m)^\s*go (func|\w)|\.Go\(|\.Parallel\(\)|RunParallel|AfterFunc|^\s*(\w+ )?"(net|net/http/?.*|os/exec|testing/synctest|k8s\.io/client-go/.*|sigs\.k8s\.io/controller-runtime.*)"$`)

// racing returns, of the packages, those whose tests start goroutines: in a test, in the package, or in a package of this module that these import.
// The race detector has nothing to find in the others, and a binary with it takes three times as long to link.
func racing(packages []string) (out []string, err error) {
	list, err := exec.Command("go", append([]string{"list", "-deps", "-test", "-f",
		"{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles \" \"}}\t{{join .Deps \",\"}}"}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	starts := map[string]bool{} // by import path, of packages of this module
	tests := map[string][]string{}
	for line := range strings.Lines(string(list)) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		path, dir, files, deps := c[0], c[1], strings.Fields(c[2]), strings.Split(c[3], ",")
		if !strings.HasPrefix(path, modulePath) {
			continue
		}
		if pkg, ok := strings.CutSuffix(path, ".test"); ok {
			tests[pkg] = deps
			continue
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return nil, err
			}
			starts[path] = starts[path] || goroutines.Match(text)
		}
	}
	for _, pkg := range packages {
		if slices.ContainsFunc(tests[modulePath+strings.TrimPrefix(pkg, ".")], func(dep string) bool { return starts[dep] }) {
			out = append(out, pkg)
		}
	}
	return out, nil
}
