package store

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ephor-dev/ephor/internal/decision"
)

// twice runs statements that may run more than once. If an old connection is lost, it runs them again on a new one: a server that restarts
// closes its connections, and the client notices this only when it uses one. The caller holds the lock.
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

// lost reports whether a statement failed because its old connection was lost. It returns false for a new connection, so that no statement
// is tried a third time.
func lost(ctx context.Context, c *pgconn.PgConn, old bool) bool {
	return old && c.IsClosed() && ctx.Err() == nil
}

// remember stores the ID of a batch in a transaction. If another transaction is storing the same ID, it waits for that one. It returns
// errStored if the ID is stored already.
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

// forgetBatches deletes IDs that are too old, and the oldest ones if there are too many. All processes use the clock of the database.
func forgetBatches(ctx context.Context, c *pgconn.PgConn) error {
	return c.ExecParams(ctx, `DELETE FROM ephor_decisions_batches
WHERE at < now() - $1::float8 * interval '1 second' OR at < (SELECT at FROM ephor_decisions_batches ORDER BY at DESC OFFSET $2::bigint LIMIT 1)`,
		[][]byte{[]byte(strconv.FormatFloat(batchAge.Seconds(), 'f', -1, 64)), []byte(strconv.Itoa(maxSharedBatches - 1))}, nil, nil, nil).Read().Err
}
