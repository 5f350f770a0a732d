package decisions

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// pause is how often a followed file is looked at.
const pause = 200 * time.Millisecond

// growing reads a file, waits at its end for more, and goes on with the file that takes its place. It ends when ctx is done.
type growing struct {
	ctx  context.Context
	path string
	file *os.File
	read int64
	last byte
}

func openGrowing(ctx context.Context, path string) (*growing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &growing{ctx: ctx, path: path, file: f, last: '\n'}, nil
}

func (g *growing) close() { _ = g.file.Close() } // it was only read

// Read implements io.Reader.
func (g *growing) Read(p []byte) (int, error) {
	for {
		n, err := g.file.Read(p)
		if n > 0 {
			g.read += int64(n)
			g.last = p[n-1]
			return n, nil
		}
		if err != nil && err != io.EOF {
			return 0, err
		}
		next, err := g.replaced()
		if err != nil {
			return 0, err
		}
		if next != nil {
			// What was appended between the end and the replacement is read first.
			if n, err := g.file.Read(p); n > 0 || err != nil && err != io.EOF {
				_ = next.Close()
				g.read += int64(n)
				if n > 0 {
					g.last = p[n-1]
				}
				return n, err
			}
			g.close()
			g.file, g.read = next, 0
			if g.last != '\n' && len(p) > 0 { // a line that its writer did not finish
				p[0], g.last = '\n', '\n'
				return 1, nil
			}
			continue
		}
		select {
		case <-g.ctx.Done():
			return 0, io.EOF
		case <-time.After(pause):
		}
	}
}

// replaced opens the file that took the place of the one that is read, or the same one where it was cut; nil for none.
func (g *growing) replaced() (*os.File, error) {
	now, err := os.Stat(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // between the two
	}
	if err != nil {
		return nil, err
	}
	own, err := g.file.Stat()
	if err != nil {
		return nil, err
	}
	if os.SameFile(now, own) && now.Size() >= g.read {
		return nil, nil
	}
	return os.Open(g.path)
}
