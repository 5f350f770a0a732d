package decisions

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/decision"
)

// files are where the records are.
type files []string

func (o *files) addFlags(f *pflag.FlagSet) {
	f.VarP(terminal.Paths((*[]string)(o)), "filename", "f", "files of JSON lines that the admission controller wrote (--decisions), or - for standard input, such as its log (repeat it, or separate by commas)")
}

// read hands over the records of all files until take returns false. mistakes is how many lines could not be read; each is reported.
func (o files) read(stdin io.Reader, stderr io.Writer, take func(*decision.Record) bool) (mistakes int, err error) {
	if len(o) == 0 {
		return 0, errors.New("require decisions: give files with --filename, or - for standard input")
	}
	more := true
	for _, path := range o {
		if !more {
			break
		}
		err := open(path, stdin, func(in io.Reader) error {
			return decision.Read(in, func(r *decision.Record) bool { more = take(r); return more }, func(line int, err error) {
				mistakes++
				fmt.Fprintf(terminal.LegibleWriter(stderr), "%s:%d: %v\n", path, line, err)
			})
		})
		if err != nil {
			return mistakes, fmt.Errorf("%s: %w", path, err)
		}
	}
	return mistakes, nil
}

func open(path string, stdin io.Reader, read func(io.Reader) error) error {
	if path == "-" {
		if stdin == nil {
			return errors.New("standard input is a terminal")
		}
		return read(stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return read(f)
}
