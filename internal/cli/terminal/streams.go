package terminal

import (
	"bufio"
	"io"
	"os"
)

// Stdin returns standard input if it is not a terminal, and nil otherwise.
func Stdin(in io.Reader) io.Reader {
	if f, ok := in.(*os.File); ok {
		info, err := f.Stat()
		if err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil
		}
	}
	return in
}

// Buffered returns a buffer for an output. The caller must flush it.
func Buffered(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 64<<10) }
