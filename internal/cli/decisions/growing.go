package decisions

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// pause is the interval at which a followed file is checked.
const pause = 200 * time.Millisecond

// growing reads a file, waits for more data at its end, and continues with the file that replaces it. It ends when ctx is done.
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
			// Data that was appended before the replacement is read first.
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
			if g.last != '\n' && len(p) > 0 { // ends a line that its writer did not complete
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

// replaced opens the file that replaced the current one, or reopens a truncated file; nil if there is neither.
func (g *growing) replaced() (*os.File, error) {
	now, err := os.Stat(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the old file is gone, and the new one does not exist yet
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
	next, err := os.Open(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it was replaced again, and the new one does not exist yet
	}
	return next, err
}
