package terminal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a file, or returns stdin for the path -. stdin is nil if standard input is a terminal. Errors do not name the path.
func Open(path string, stdin io.Reader) (io.ReadCloser, error) {
	if path == "-" {
		if stdin == nil {
			return nil, errors.New("standard input is a terminal")
		}
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Unreadable(err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(errors.New("it is a folder: name the files in it"), f.Close())
	}
	return f, nil
}

// Unreadable returns the reason why a file cannot be read, without its path, and what to do about it.
func Unreadable(err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (check the path)", err)
	}
	return err
}
