package decisions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
)

// errNoFiles is the error for a command without a source.
var errNoFiles = errors.New("require decisions: give files with --filename, or - for standard input, or the address of a dashboard with --server")

// source is the source of the records: files, or a server.
type source struct {
	files
	server remote.DecisionServer
}

func (o *source) addFlags(f *pflag.FlagSet) {
	o.files.addFlags(f)
	o.server.AddFlags(f)
}

// read passes the records that the query selects to take until take returns false. It reads lines in their order, and a store from the
// newest record to the oldest. mistakes is the number of lines that could not be read; each of them is reported.
func (o *source) read(ctx context.Context, q *decision.Query, stdin io.Reader, stderr io.Writer, take func(*decision.Record) bool) (mistakes int, err error) {
	if o.server.Address == "" {
		return o.files.read(ctx, q, stdin, stderr, take)
	}
	page, err := o.pages(stderr)
	if err != nil {
		return 0, err
	}
	_, err = page.Each(ctx, q, pageRecords, take)
	return 0, err
}

// pages returns the function that reads pages from the server.
func (o *source) pages(stderr io.Writer) (decision.Pages, error) {
	if len(o.files) > 0 {
		return nil, errors.New("--server and --filename do not go together")
	}
	return o.server.Pages(func(namespaces int) {
		fmt.Fprintf(stderr, "%d namespaces are left out, since there are too many to check the rights for each: name some with --namespace\n", namespaces)
	})
}

// files has the paths of files with records.
type files []string

func (o *files) addFlags(f *pflag.FlagSet) {
	f.VarP(terminal.Paths((*[]string)(o)), "filename", "f", "files of JSON lines that the admission controller wrote (--decisions), - for standard input, such as its log, or a store: "+store.ReadForms()+" (repeat it, or separate by commas)")
}

// read does what source.read does, for files. A file that cannot be read does not stop the others.
func (o files) read(ctx context.Context, q *decision.Query, stdin io.Reader, stderr io.Writer, take func(*decision.Record) bool) (mistakes int, err error) {
	if len(o) == 0 {
		return 0, errNoFiles
	}
	ended := false
	until := func(r *decision.Record) bool { ended = !take(r); return !ended }
	var errs []error
	for _, path := range o {
		if ended || ctx.Err() != nil {
			break
		}
		var err error
		if store.CanRead(path) {
			err = readStore(ctx, path, q, until)
		} else {
			err = open(path, stdin, func(in io.Reader) error {
				return decision.Read(in, func(r *decision.Record) bool { return !q.Selects(r) || until(r) }, func(line int, err error) {
					mistakes++
					fmt.Fprintf(terminal.LegibleWriter(stderr), "%s:%d: %v\n", path, line, err)
				})
			})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", store.Name(path), err))
		}
	}
	return mistakes, errors.Join(errs...)
}

// pageRecords is the number of records in a page.
const pageRecords = 500

// readStore passes the records of a store to take until take returns false.
func readStore(ctx context.Context, address string, q *decision.Query, take func(*decision.Record) bool) (err error) {
	s, err := store.OpenReader(address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = decision.Pages(s.Page).Each(ctx, q, pageRecords, take)
	return err
}

// followEvery is the interval at which a followed store is queried. followBack is the longest delay of a record compared with others of the
// same time: records are written after the auditing rules, which take at most 30 seconds, and sent within ten seconds.
const (
	followEvery = time.Second
	followBack  = 45 * time.Second
	// longestPause is the longest pause after a failure.
	longestPause = 30 * time.Second
	// maxSeen is the number of remembered records above which those older than followBack are forgotten.
	maxSeen = 10_000
)

// followPages passes the records of a store to take, from the oldest to the newest, and then new records until ctx is done. Once the store has
// answered, it goes on after a failure, with growing pauses, and says so once; a refusal ends it.
func followPages(ctx context.Context, page decision.Pages, q *decision.Query, stderr io.Writer, take func(*decision.Record) bool) error {
	at := *q
	at.Oldest = true
	newest := q.Since
	seen := map[string]time.Time{}
	forget := func() {
		for uid, t := range seen {
			if newest.Sub(t) > followBack {
				delete(seen, uid)
			}
		}
	}
	answered := false
	failing, pause := false, followEvery
	asked := func(ctx context.Context, q *decision.Query, after string, limit int) (decision.Page, error) {
		out, err := page(ctx, q, after, limit)
		answered = answered || err == nil
		return out, err
	}
	for {
		more, err := decision.Pages(asked).Each(ctx, &at, pageRecords, func(r *decision.Record) bool {
			if _, known := seen[r.UID]; known {
				return true
			}
			if seen[r.UID] = r.Time; len(seen) > maxSeen {
				forget()
			}
			at := r.Time
			if now := time.Now(); at.After(now) { // the clock of the process that recorded it is ahead
				at = now
			}
			if at.After(newest) {
				newest = at
			}
			return take(r)
		})
		switch {
		case ctx.Err() != nil:
			return nil // following a store always ends this way
		case err != nil:
			if refused := (*remote.RefusedError)(nil); !answered || errors.As(err, &refused) {
				return err
			}
			if !failing {
				fmt.Fprintf(terminal.LegibleWriter(stderr), "%v; it is tried again until it answers\n", err)
			}
			failing, pause = true, min(2*pause, longestPause)
		case !more:
			return nil
		default:
			failing, pause = false, followEvery
		}
		forget()
		if back := newest.Add(-followBack); back.After(q.Since) {
			at.Since = back
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// follow passes the records of one file, a store or the server to take, and then new records until ctx is done.
func (o *source) follow(ctx context.Context, q *decision.Query, stderr io.Writer, take func(*decision.Record) bool) (mistakes int, err error) {
	switch {
	case o.server.Address != "":
		page, err := o.pages(stderr)
		if err != nil {
			return 0, err
		}
		return 0, followPages(ctx, page, q, stderr, take)
	case len(o.files) != 1 || o.files[0] == "-":
		return 0, errors.New("--follow needs exactly one file of JSON lines, one store or a server")
	case store.CanRead(o.files[0]):
		s, err := store.OpenReader(o.files[0])
		if err != nil {
			return 0, err
		}
		return 0, errors.Join(followPages(ctx, s.Page, q, stderr, take), s.Close())
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
	f, err := terminal.Open(path, stdin)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return read(f)
}
