// Package formats carries the schemas of the files that the program reads and writes, and that no cluster stores: tests, values, records of
// decisions. They are generated from the Go types (hack/generate.sh), in the form of a CustomResourceDefinition.
//
//	for _, text := range formats.Definitions() { … }
//
// It only carries them. It imports nothing of Ephor.
package formats

import "embed"

//go:embed *.json
var files embed.FS

// Definitions returns the schemas as JSON, in the order of the names of their files.
func Definitions() [][]byte {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("formats: " + err.Error()) // the embedded directory is always there
	}
	var out [][]byte
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			panic("formats: " + err.Error())
		}
		out = append(out, text)
	}
	return out
}
