package store

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// answerTimeout is how long a server may take to answer before its connection is replaced.
const answerTimeout = 2 * time.Second

// link is a number of connections to the database, each of which one caller at a time uses. After a failure a connection is closed, so that the server
// undoes what is not committed, and the next caller gets a new one.
type link struct {
	connect func(context.Context) (*sql.Conn, error)
	closed  atomic.Bool
	size    int64               // the number of connections
	turn    *semaphore.Weighted // of size

	mu   sync.Mutex
	idle []*sql.Conn // the one that was used last at the end
}

func newLink(size int64, connect func(context.Context) (*sql.Conn, error)) *link {
	return &link{connect: connect, size: size, turn: semaphore.NewWeighted(size)}
}

// use runs statements that may run more than once. If they fail on an old connection, it runs them again on a new one: the server may have
// restarted, or may have become a standby.
func (l *link) use(ctx context.Context, run func(context.Context, *sql.Conn) error) (err error) {
	if err := l.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.turn.Release(1)
	if l.closed.Load() {
		return errClosed
	}
	c := l.take()
	for {
		old := c != nil && answers(ctx, c)
		if !old {
			drop(c)
			if c, err = l.connect(ctx); err != nil {
				return err
			}
		}
		if err = run(ctx, c); err == nil && !l.closed.Load() {
			l.keep(c)
			return nil
		}
		drop(c)
		if c = nil; !old || err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// take returns an idle connection; nil if there is none.
func (l *link) take() *sql.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.idle) - 1
	if last < 0 {
		return nil
	}
	c := l.idle[last]
	l.idle = l.idle[:last]
	return c
}

// keep keeps a connection for the next caller.
func (l *link) keep(c *sql.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, c)
}

// answers reports whether the server of a connection answers. A server that has vanished does not close its connections.
func answers(ctx context.Context, c *sql.Conn) bool {
	limit := answerTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.PingContext(ctx) == nil
}

// drop closes a connection if there is one.
func drop(c *sql.Conn) {
	if c != nil {
		_ = c.Close() // it is not used again
	}
}

// close closes the connections, when the callers that use them are done. It does not wait longer than ctx.
func (l *link) close(ctx context.Context) error {
	l.closed.Store(true)
	if err := l.turn.Acquire(ctx, l.size); err != nil {
		return err
	}
	defer l.turn.Release(l.size)
	for c := l.take(); c != nil; c = l.take() {
		drop(c)
	}
	return nil
}
