// Package crds carries the CustomResourceDefinitions of Ephor, generated from the types in api/ (hack/generate.sh).
//
//	for _, name := range crds.Names() { apply(crds.File(name)) }
//
// It only carries them; installing is up to the caller. It imports nothing of Ephor.
package crds

import "embed"

//go:embed *.yaml
var files embed.FS

// Names lists the definitions, one YAML file each, named ⟨group⟩_⟨plural⟩.yaml, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("crds: " + err.Error()) // the embedded directory is always there
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// File is the YAML of one definition; name is one of Names. It is nil for other names.
func File(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		return nil
	}
	return content
}
