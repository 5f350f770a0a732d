package main

import (
	"io/fs"
	"testing"
)

// Each of the 18 policies has a template in both languages, and a constraint.
func TestGatekeeperTemplates(t *testing.T) {
	files, err := fs.Glob(rego, "gatekeeper/*.rego")
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]func(object) (object, error){"Rego": regoTemplate, "CEL": celTemplate} {
		templates, constraints, err := gatekeeperTemplates("..", code)
		if err != nil || len(templates) != 18 || len(constraints) != 18 || len(files) != 18 {
			t.Errorf("%s: %d templates, %d constraints, %d files in Rego: %v", name, len(templates), len(constraints), len(files), err)
		}
	}
}

// What PEER names is recognized by its base name.
func TestNamePeers(t *testing.T) {
	b := &bench{}
	if err := b.namePeers([]string{"/opt/kyverno-1.19/kyverno", "./gator"}); err != nil || b.peers[kyvernoProgram] != "/opt/kyverno-1.19/kyverno" || b.peers[gatorProgram] == "" {
		t.Errorf("%v, %q", err, b.peers)
	}
	if err := b.namePeers([]string{"/opt/kubectl-kyverno"}); err == nil {
		t.Error("a program with another name is accepted")
	}
}
