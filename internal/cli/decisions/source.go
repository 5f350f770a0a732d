package decisions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/decision"
	"github.com/ephor-dev/ephor/internal/decision/store"
)

// errNoFiles is the error for a command without a source.
var errNoFiles = errors.New("require decisions: give files with --filename, or - for standard input, or the address of a dashboard with --server")

// source is where the records are: files, or a server.
type source struct {
	files
	server
}

func (o *source) addFlags(f *pflag.FlagSet) {
	o.files.addFlags(f)
	o.server.addFlags(f)
}

// read hands over the records that the query selects until take returns false: those of lines in their order, those of a store the newest
// first. mistakes is how many lines could not be read; each is reported.
func (o *source) read(ctx context.Context, q *decision.Query, stdin io.Reader, stderr io.Writer, take func(*decision.Record) bool) (mistakes int, err error) {
	if o.address == "" {
		return o.files.read(ctx, q, stdin, stderr, take)
	}
	if len(o.files) > 0 {
		return 0, errors.New("--server and --filename do not go together")
	}
	page, err := o.reader()
	if err != nil {
		return 0, err
	}
	_, err = pages(ctx, page, q, take)
	return 0, err
}

// files are files with records.
type files []string

func (o *files) addFlags(f *pflag.FlagSet) {
	f.VarP(terminal.Paths((*[]string)(o)), "filename", "f", "files of JSON lines that the admission controller wrote (--decisions), - for standard input, such as its log, or sqlite:PATH for a store (repeat it, or separate by commas)")
}

// read is that of a source.
func (o files) read(ctx context.Context, q *decision.Query, stdin io.Reader, stderr io.Writer, take func(*decision.Record) bool) (mistakes int, err error) {
	if len(o) == 0 {
		return 0, errNoFiles
	}
	more := true
	for _, path := range o {
		if !more {
			break
		}
		if name, ok := strings.CutPrefix(path, "sqlite:"); ok {
			more, err = readStore(ctx, name, q, take)
		} else {
			err = open(path, stdin, func(in io.Reader) error {
				return decision.Read(in, func(r *decision.Record) bool { more = !q.Selects(r) || take(r); return more }, func(line int, err error) {
					mistakes++
					fmt.Fprintf(terminal.LegibleWriter(stderr), "%s:%d: %v\n", path, line, err)
				})
			})
		}
		if err != nil {
			return mistakes, fmt.Errorf("%s: %w", path, err)
		}
	}
	return mistakes, nil
}

// pageRecords is how many records are read at once.
const pageRecords = 500

// readStore hands over the records of a store until take returns false.
func readStore(ctx context.Context, path string, q *decision.Query, take func(*decision.Record) bool) (more bool, err error) {
	s, err := store.ReadSQLite(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return pages(ctx, s.Page, q, take)
}

// pages hands over the records of all pages until take returns false.
func pages(ctx context.Context, page func(context.Context, *decision.Query, string, int) (decision.Page, error), q *decision.Query, take func(*decision.Record) bool) (more bool, err error) {
	for after := ""; ; {
		p, err := page(ctx, q, after, pageRecords)
		if err != nil {
			return false, err
		}
		for i := range p.Records {
			if !take(&p.Records[i]) {
				return false, nil
			}
		}
		if after = p.Next; after == "" {
			return true, nil
		}
	}
}

// follow hands over the records of one file, and those that are appended to it until ctx is done.
func (o *source) follow(ctx context.Context, q *decision.Query, stderr io.Writer, take func(*decision.Record) bool) (mistakes int, err error) {
	if len(o.files) != 1 || o.files[0] == "-" || o.address != "" || strings.HasPrefix(o.files[0], "sqlite:") {
		return 0, errors.New("--follow needs exactly one file of JSON lines")
	}
	in, err := openGrowing(ctx, o.files[0])
	if err != nil {
		return 0, err
	}
	defer in.close()
	err = decision.Read(in, func(r *decision.Record) bool { return !q.Selects(r) || take(r) }, func(line int, err error) {
		mistakes++
		fmt.Fprintf(terminal.LegibleWriter(stderr), "%s:%d: %v\n", o.files[0], line, err)
	})
	return mistakes, err
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
