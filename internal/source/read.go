package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"ephor.invalid/ephor/internal/bounded"
)

const (
	// maxFile bounds a file, the content of a URL, and standard input, in bytes.
	maxFile = 256 << 20
	// maxRepository bounds the total size of the manifests in a git repository, in bytes.
	maxRepository = 512 << 20
)

// errIrregular is the error for devices, sockets and pipes: reading them may never end.
var errIrregular = errors.New("this is not a regular file")

// readFile reads a regular file of at most maxFile bytes. It also reads a pipe if the user named it, as a shell's
// <(command) does.
func readFile(name string, named bool) ([]byte, error) {
	info, err := os.Stat(name) // opening a pipe may block for ever
	if err != nil {
		return nil, err
	}
	switch kind := info.Mode() & fs.ModeType; {
	case kind == fs.ModeNamedPipe && named:
	case kind != 0:
		return nil, errIrregular
	case info.Size() > maxFile:
		return nil, tooLarge(maxFile)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	return readInto(b, f, maxFile)
}

// readAll reads at most most bytes; more bytes are an error.
func readAll(r io.Reader, most int64) ([]byte, error) {
	text, err := bounded.Read(r, most)
	if bounded.Exceeded(err) {
		return nil, tooLarge(most)
	}
	return text, err
}

func readInto(b *bytes.Buffer, r io.Reader, most int64) ([]byte, error) {
	if _, err := b.ReadFrom(io.LimitReader(r, most+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > most {
		return nil, tooLarge(most)
	}
	return b.Bytes(), nil
}

func tooLarge(most int64) error { return fmt.Errorf("the file is larger than %d MiB", most>>20) }
