package apply

import (
	"fmt"
	"os"
	"path/filepath"
)

// prepareOutput makes the place for changed objects: a file is created empty, also when no object is written to it, and
// a directory is made.
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

// outputIsFile reports whether --output names a file; otherwise it is a directory.
func outputIsFile(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".yaml" || ext == ".yml"
}
