package terminal

import (
	"bufio"
	"io"
	"os"
)

// Stdin is standard input when something is piped into it, nil when it is a terminal.
func Stdin(in io.Reader) io.Reader {
	if f, ok := in.(*os.File); ok {
		info, err := f.Stat()
		if err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil
		}
	}
	return in
}

// Buffered is a buffer in front of an output. The caller flushes it.
func Buffered(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 64<<10) }
