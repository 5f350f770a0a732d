package store

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ephor-dev/ephor/internal/decision"
)

// twice runs statements that may run more than once. They run again, on a new connection, if the connection was an old one and is lost: a server that
// was restarted closes connections, which is noticed only when the next one is used. The store is locked.
func (s *Postgres) twice(ctx context.Context, run func(*pgconn.PgConn) error) error {
	for {
		old := s.write != nil && !s.write.IsClosed()
		c, err := s.connected(ctx)
		if err != nil {
			return err
		}
		if err = run(c); err == nil || !lost(ctx, c, old) {
			return err
		}
	}
}

// lost reports whether a statement failed because its old connection was lost. It is false for a new connection, so that nothing is tried a third time.
func lost(ctx context.Context, c *pgconn.PgConn, old bool) bool {
	return old && c.IsClosed() && ctx.Err() == nil
}

// remember stores the ID of a batch in a transaction. It waits for another transaction that does so, and returns errStored for an ID that is there.
func remember(ctx context.Context, c *pgconn.PgConn, id decision.BatchID) error {
	if id == (decision.BatchID{}) {
		return nil
	}
	done := c.ExecParams(ctx, "INSERT INTO ephor_decisions_batches (id) VALUES ($1) ON CONFLICT DO NOTHING", [][]byte{id[:]}, nil, []int16{1}, nil).Read()
	if done.Err == nil && done.CommandTag.RowsAffected() == 0 {
		return errStored
	}
	return done.Err
}

// forgetBatches deletes IDs that are too old, or too many. All processes use the clock of the database.
func forgetBatches(ctx context.Context, c *pgconn.PgConn) error {
	return c.ExecParams(ctx, `DELETE FROM ephor_decisions_batches
WHERE at < now() - $1::float8 * interval '1 second' OR at < (SELECT at FROM ephor_decisions_batches ORDER BY at DESC OFFSET $2::bigint LIMIT 1)`,
		[][]byte{[]byte(strconv.FormatFloat(batchAge.Seconds(), 'f', -1, 64)), []byte(strconv.Itoa(maxSharedBatches - 1))}, nil, nil, nil).Read().Err
}
