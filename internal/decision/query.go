package decision

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/wildcard"
)

// Query selects records. Empty fields select all; names may hold wildcards.
type Query struct {
	Since, Until                       time.Time
	UID                                string
	Policies, Namespaces, Users, Kinds []string
	Verdicts                           []Verdict
	// Cluster, if set, selects the records of one cluster.
	Cluster string
	// Requests: the records of a page hold their requests, if these are stored.
	Requests bool
	// Oldest: the oldest record comes first, not the newest.
	Oldest bool
	// Sees reports whether the records of a namespace may be shown; "" stands for objects without a namespace. nil shows all records.
	Sees func(namespace string) bool
}

// Reader reads the records of a Store. Its methods are safe for concurrent use.
type Reader interface {
	// Page returns up to limit records that q selects, the newest first unless q says otherwise. It begins after the position that an earlier
	// page returned (empty for the first page). Its time is limited, so pages before the last one may have few records or none.
	Page(ctx context.Context, q *Query, after string, limit int) (Page, error)
	// Namespaces returns the namespaces of all records, without "".
	Namespaces(ctx context.Context) ([]string, error)
}

// Eraser is a Reader whose records can be erased.
type Eraser interface {
	// EraseUser erases all records of a user, and returns their number.
	EraseUser(ctx context.Context, name string) (int, error)
}

// ErrPosition is the error for a position that no page returned.
var ErrPosition = errors.New("it is not the position of a page")

// Page is a part of the records that a query selects.
type Page struct {
	Records []Record `json:"records"`
	// Next is the position after the page; empty for the last page.
	Next string `json:"next,omitempty"`
}

// Pages reads one page, like the method Page of a Reader.
type Pages func(ctx context.Context, q *Query, after string, limit int) (Page, error)

// Each passes the records of all pages to take until take returns false. A page has up to limit records. It reports whether take would have taken
// more.
func (p Pages) Each(ctx context.Context, q *Query, limit int, take func(*Record) bool) (more bool, err error) {
	for after := ""; ; {
		page, err := p(ctx, q, after, limit)
		if err != nil {
			return false, err
		}
		for i := range page.Records {
			if !take(&page.Records[i]) {
				return false, nil
			}
		}
		if after = page.Next; after == "" {
			return true, nil
		}
	}
}

// Selects reports whether the query selects the record.
func (q *Query) Selects(r *Record) bool {
	switch {
	case !q.Since.IsZero() && r.Time.Before(q.Since), !q.Until.IsZero() && !r.Time.Before(q.Until):
		return false
	case q.UID != "" && q.UID != r.UID, q.Cluster != "" && q.Cluster != r.Cluster:
		return false
	case q.Sees != nil && !q.Sees(r.Namespace):
		return false
	case len(q.Verdicts) > 0 && !slices.Contains(q.Verdicts, r.Verdict):
		return false
	case !Among(q.Namespaces, r.Namespace), !Among(q.Users, r.User), !Among(q.Kinds, r.Kind):
		return false
	}
	return len(q.Policies) == 0 || slices.ContainsFunc(r.Rules, func(x Result) bool { return Among(q.Policies, x.Policy) })
}

// Among reports whether one of the patterns matches the name. It also returns true if there are no patterns.
func Among(patterns []string, name string) bool {
	return len(patterns) == 0 || wildcard.MatchAny(patterns, name)
}

// maxLine is the longest record that is read.
const maxLine = 4 << 20

// errSchema is the error for a line that is not a record, or is a record of another version.
var errSchema = errors.New("it is not a record of " + Schema)

// errLong is the error for a line that is too long.
var errLong = fmt.Errorf("the line is longer than %d bytes", maxLine)

// Read passes the records of JSON lines to take, one by one, until take returns false. It ignores lines that do not begin with `{`, since
// a log may have other lines. It passes the number of a line that cannot be read to wrong. If the text of a request is in an earlier
// record, Read adds it to the later record.
func Read(from io.Reader, take func(*Record) bool, wrong func(line int, err error)) error {
	in := bufio.NewReaderSize(from, 64<<10)
	known := window[[]byte]{max: keptBodies, maxBytes: keptBytes}
	var text []byte
	for line := 1; ; line++ {
		var long bool
		var end error
		if text, long, end = readLine(in, text[:0]); end != nil && end != io.EOF {
			return end
		}
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff")) // the byte order mark of a copy
		}
		var r Record
		var err error
		switch {
		case !bytes.HasPrefix(text, []byte("{")):
			err = errOther
		case long:
			err = errLong
		default:
			err = r.parse(text)
		}
		switch {
		case err == nil:
			complete(&known, &r)
			if !take(&r) {
				return nil
			}
		case err != errOther:
			wrong(line, err)
		}
		if end != nil {
			return nil
		}
	}
}

// errOther is the error for a line of a log that is not meant to be a record.
var errOther = errors.New("it is not a record")

// parse reads a record from a line.
func (r *Record) parse(line []byte) error {
	err := json.Unmarshal(line, r)
	var torn *json.SyntaxError
	switch {
	case errors.As(err, &torn):
	case r.Schema == "":
		return errOther // a line of the log in JSON, whose fields may have other types
	case r.Schema != Schema:
		return errSchema
	}
	return err
}

// readLine appends the next line to b. Of a line that is too long, it returns the beginning.
func readLine(in *bufio.Reader, b []byte) (line []byte, long bool, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if long = long || len(b)+len(piece) > maxLine; !long {
			b = append(b, piece...)
		}
		if err != bufio.ErrBufferFull {
			return b, long, err
		}
	}
}

// complete adds the texts of earlier records to a record, and remembers its own texts.
func complete(known *window[[]byte], r *Record) {
	if r.Request == nil {
		return
	}
	for _, b := range r.Request.Bodies() {
		if len(b.Deflated) > 0 {
			known.add(b.Digest, b.Deflated, len(b.Deflated))
		} else {
			b.Deflated, _ = known.get(b.Digest)
		}
	}
}
