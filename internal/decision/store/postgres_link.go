package store

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// answerTimeout is how long a server may take to answer before its connection is replaced.
const answerTimeout = 2 * time.Second

// link is a connection to the database that one caller at a time uses. After a failure it is closed, so that the server undoes what is not
// committed, and the next caller gets a new one.
type link struct {
	connect func(context.Context) (*sql.Conn, error)
	closed  atomic.Bool
	turn    *semaphore.Weighted
	conn    *sql.Conn
}

func newLink(connect func(context.Context) (*sql.Conn, error)) *link {
	return &link{connect: connect, turn: semaphore.NewWeighted(1)}
}

// use runs statements that may run more than once. If they fail on an old connection, it runs them again on a new one: the server may have
// restarted, or may have become a standby.
func (l *link) use(ctx context.Context, run func(context.Context, *sql.Conn) error) (err error) {
	if err := l.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.turn.Release(1)
	defer func() {
		if l.closed.Load() { // meanwhile
			l.drop()
		}
	}()
	if l.closed.Load() {
		return errClosed
	}
	for {
		old := l.conn != nil && answers(ctx, l.conn)
		if !old {
			l.drop()
			if l.conn, err = l.connect(ctx); err != nil {
				return err
			}
		}
		if err = run(ctx, l.conn); err == nil {
			return nil
		}
		l.drop()
		if !old || ctx.Err() != nil {
			return err
		}
	}
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

// drop closes the connection if there is one. The caller has the turn.
func (l *link) drop() {
	if l.conn != nil {
		_ = l.conn.Close() // it is not used again
	}
	l.conn = nil
}

// close closes the connection, when the caller that uses it is done. It does not wait longer than ctx.
func (l *link) close(ctx context.Context) error {
	l.closed.Store(true)
	if err := l.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.turn.Release(1)
	l.drop()
	return nil
}
