package terminal

import (
	"errors"
	"io"
	"os"
)

// Open opens a file, or returns stdin for the path -. stdin is nil if standard input is a terminal.
func Open(path string, stdin io.Reader) (io.ReadCloser, error) {
	if path == "-" {
		if stdin == nil {
			return nil, errors.New("standard input is a terminal")
		}
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(errors.New("it is a folder: name the files in it"), f.Close())
	}
	return f, nil
}
