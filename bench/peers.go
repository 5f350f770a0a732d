package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// The programs of peers that PEER may name. The base name of a path says which one it is.
const (
	kyvernoProgram     = "kyverno"
	kyvernoAdmission   = "kyverno-admission"
	gatekeeperManager  = "gatekeeper"
	gatekeeperManifest = "gatekeeper.yaml"
	gatorProgram       = "gator"
)

var peerPrograms = map[string]string{
	kyvernoProgram:     "the command line of Kyverno 1.19.1",
	kyvernoAdmission:   "its admission controller",
	gatekeeperManager:  "the manager of Gatekeeper 3.23.0",
	gatekeeperManifest: "its install manifest, for its definitions and its webhook configuration",
	gatorProgram:       "its command line",
}

// namePeers stores the programs of peers, by their base names.
func (b *bench) namePeers(paths []string) error {
	b.peers = map[string]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		if peerPrograms[name] == "" {
			return fmt.Errorf("%s: PEER names programs by their base names: %s", path, strings.Join(slices.Sorted(maps.Keys(peerPrograms)), ", "))
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		b.peers[name] = absolute
	}
	return nil
}
