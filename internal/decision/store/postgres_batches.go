package store

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"ephor.invalid/ephor/internal/decision"
)

// remember stores the ID of a batch in a transaction. If another transaction is storing the same ID, it waits for that one. It reports
// whether the ID is stored already.
func remember(ctx context.Context, c *pgconn.PgConn, id decision.BatchID) (stored bool, err error) {
	if id == (decision.BatchID{}) {
		return false, nil
	}
	done := c.ExecParams(ctx, "INSERT INTO ephor_decisions_batches (id) VALUES ($1) ON CONFLICT DO NOTHING", [][]byte{id[:]}, nil, []int16{1}, nil).Read()
	return done.Err == nil && done.CommandTag.RowsAffected() == 0, done.Err
}

// forgetBatches deletes IDs that are too old, and the oldest ones if there are too many. All processes use the clock of the database.
func (d deleting) forgetBatches(ctx context.Context) error {
	_, _, err := d.step(ctx, `DELETE FROM ephor_decisions_batches
WHERE at < now() - $1::float8 * interval '1 second' OR at < (SELECT at FROM ephor_decisions_batches ORDER BY at DESC OFFSET $2::bigint LIMIT 1)`,
		strconv.FormatFloat(batchAge.Seconds(), 'f', -1, 64), strconv.Itoa(maxSharedBatches-1))
	return err
}
