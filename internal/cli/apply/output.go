package apply

import (
	"fmt"
	"os"
	"path/filepath"

	"ephor.invalid/ephor/internal/source"
)

// prepareOutput creates the target for changed objects: an empty file, even if no object will be written to it, or a
// directory.
func prepareOutput(path string) error {
	switch {
	case outputIsFile(path):
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return fmt.Errorf("cannot make the directory of --output: %w", err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return fmt.Errorf("cannot write --output: %w", err)
		}
	default:
		if err := os.MkdirAll(path, 0o750); err != nil {
			return fmt.Errorf("cannot make the directory --output: %w", err)
		}
	}
	return nil
}

// outputIsFile reports whether --output names a file. Otherwise it names a directory.
func outputIsFile(path string) bool { return source.IsYAML(path) }
