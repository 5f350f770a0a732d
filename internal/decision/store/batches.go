package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// The table of stored batches in a file. Programs that do not know it ignore it.
const sqliteBatches = `
CREATE TABLE IF NOT EXISTS batch (
  n INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE, -- of the sender
  at INTEGER NOT NULL -- seconds since 1970
);
`

// The limits of the batches that a store remembers. A sender gives up after seconds (writeTimeout in internal/decision).
const (
	batchAge = 10 * time.Minute
	// maxBatches is the limit of a file, in which a batch takes about 60 bytes. It is above the number that a file stores in those seconds.
	maxBatches = 4096
	// maxSharedBatches is the limit of a database, to which many processes write.
	maxSharedBatches = 64 << 10
)

// errStored is the error for a batch that is stored already.
var errStored = errors.New("the batch is stored already")

// batch stores the ID of a batch, and deletes IDs that are too old, and the oldest ones if there are too many.
func (w *inserting) batch(ctx context.Context, id decision.BatchID) error {
	now := w.store.o.Now()
	added, err := affected(w.prepared[addBatch].ExecContext(ctx, id[:], now.Unix()))
	if err != nil {
		return err
	}
	if added == 0 {
		return errStored
	}
	_, err = w.tx.ExecContext(ctx, "DELETE FROM batch WHERE n < max((SELECT max(n) FROM batch) - ?, (SELECT n FROM batch WHERE at >= ? ORDER BY n LIMIT 1))", maxBatches-1, now.Add(-batchAge).Unix())
	return err
}

// remember stores the ID of a batch in a transaction. If another transaction is storing the same ID, it waits for that one. It reports
// whether the ID is stored already.
func remember(ctx context.Context, tx *sql.Tx, id decision.BatchID) (stored bool, err error) {
	if id == (decision.BatchID{}) {
		return false, nil
	}
	n, err := affected(tx.ExecContext(ctx, "INSERT INTO ephor_decisions_batches (id) VALUES ($1) ON CONFLICT DO NOTHING", id[:]))
	return err == nil && n == 0, err
}

// forgetBatches deletes IDs that are too old, and the oldest ones if there are too many. All processes use the clock of the database.
func forgetBatches(ctx context.Context, c *sql.Conn) error {
	_, err := step(ctx, c, `DELETE FROM ephor_decisions_batches
WHERE at < now() - $1::float8 * interval '1 second' OR at < (SELECT at FROM ephor_decisions_batches ORDER BY at DESC OFFSET $2 LIMIT 1)`, batchAge.Seconds(), maxSharedBatches-1)
	return err
}
