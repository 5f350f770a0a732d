package conformance

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
)

// envData names the folder of the data.
const envData = "EPHOR_CONFORMANCE"

// none as the folder disables the tests.
const none = "none"

// folder returns the folder of the data. ok is false if the tests are disabled; a missing folder is an error that names the variable.
func folder() (dir string, ok bool, err error) {
	dir = os.Getenv(envData)
	if dir == none {
		return "", false, nil
	}
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "conformance") // tests run in their package's folder
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", false, fmt.Errorf("there are no conformance data in %s: set %s to their folder, or to %q to go without", dir, envData, none)
	}
	return dir, true, nil
}

// find lists the folders below root that hold a file of that name, sorted.
func find(root, name string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() == name {
			out = append(out, filepath.Dir(path))
		}
		return err
	})
	sort.Strings(out)
	return out, err
}
