package decision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Lines is a Store of JSON lines: one record on each line, written to a stream or a file.
type Lines struct {
	to io.Writer // nil while the file is not open
	// For a file: its path, its maximum size and its current size, in bytes.
	path      string
	max, size int64
	// file is the open file.
	file os.FileInfo
	// torn: the last line is incomplete, since a write failed or a process ended while it wrote.
	torn bool
	// written has the texts of requests in earlier records, to which later records refer.
	written window[struct{}]
	room    []byte // buffer for the lines of a batch
}

// maxRoom bounds the memory that is kept between batches.
const maxRoom = 2 << 20

// NewLines returns a Store that writes to a stream.
func NewLines(to io.Writer) *Lines { return &Lines{to: to, written: newWindow()} }

func newWindow() window[struct{}] { return window[struct{}]{max: windowBodies, maxBytes: math.MaxInt} }

// OpenLines returns a Store that appends to a file. A file that would exceed max bytes is renamed to PATH.1, which replaces the previous
// file of that name. Only its owner may read it.
func OpenLines(path string, max int64) (*Lines, error) {
	l := &Lines{path: path, max: max, written: newWindow()}
	return l, l.open()
}

func (l *Lines) open() (err error) {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	last := [1]byte{'\n'}
	if info.Size() > 0 {
		if _, err := f.ReadAt(last[:], info.Size()-1); err != nil {
			return err
		}
	}
	l.to, l.file, l.size, l.torn = f, info, info.Size(), last[0] != '\n'
	return nil
}

// changed reports whether another process has moved, deleted or truncated the open file.
func (l *Lines) changed() bool {
	now, err := os.Stat(l.path)
	return err != nil || !os.SameFile(now, l.file) || now.Mode().IsRegular() && now.Size() < l.size
}

// Write implements Store. All records are written at once, to a file all or none. After a failure, the next call opens the file again.
func (l *Lines) Write(_ context.Context, records []Record) (err error) {
	defer func() {
		if err != nil {
			l.written = newWindow() // it is unknown which texts the file has
		}
	}()
	if l.path != "" && l.to != nil && l.changed() {
		l.written = newWindow() // the lines must not refer to texts that are gone
		if err := l.Close(); err != nil {
			return err
		}
	}
	if l.to == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	b, err := l.encode(records)
	if err != nil {
		return err
	}
	if l.path != "" && l.size > 0 && l.size+int64(len(b)) > l.max {
		if err := l.turn(); err != nil {
			return err
		}
		if b, err = l.encode(records); err != nil { // the lines must not refer to texts in the previous file
			return err
		}
	}
	n, err := l.to.Write(b)
	if err != nil && l.path != "" {
		return errors.Join(err, l.to.(*os.File).Truncate(l.size), l.Close())
	}
	l.size += int64(n)
	if n > 0 {
		l.torn = b[n-1] != '\n'
	}
	return err
}

// encode returns the lines of records. It does not repeat a text that one of the last records has.
func (l *Lines) encode(records []Record) ([]byte, error) {
	b := l.room[:0]
	if l.torn {
		b = append(b, '\n') // the incomplete line is a separate one
	}
	for i := range records {
		r := records[i]
		if r.Request != nil {
			r.Request = r.Request.mapped(func(body *Body) *Body {
				if _, known := l.written.get(body.Digest); known {
					return &Body{Digest: body.Digest}
				}
				l.written.add(body.Digest, struct{}{}, 0)
				return body
			})
		}
		var err error
		if b, err = r.AppendJSON(b); err != nil {
			return nil, err
		}
		b = append(b, '\n')
	}
	if cap(b) <= maxRoom {
		l.room = b
	}
	return b, nil
}

// turn starts a new file.
func (l *Lines) turn() error {
	if err := l.Close(); err != nil {
		return err
	}
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return fmt.Errorf("begin a new file of decisions: %w", err)
	}
	l.written = newWindow()
	return l.open()
}

// Close implements Store.
func (l *Lines) Close() error {
	if l.path == "" || l.to == nil {
		return nil
	}
	f := l.to.(*os.File)
	l.to = nil
	return f.Close()
}
