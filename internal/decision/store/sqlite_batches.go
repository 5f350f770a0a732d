package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/ephor-dev/ephor/internal/decision"
)

// The table of batches that were stored. Programs that do not know it leave it alone.
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
	// maxBatches is that of a file, where they take about 60 bytes each; it is above what a file stores in those seconds.
	maxBatches = 4096
	// maxSharedBatches is that of a database, which many processes write to.
	maxSharedBatches = 64 << 10
)

// errStored is the error for a batch that is stored already.
var errStored = errors.New("the batch is stored already")

// batch remembers a batch, and forgets old ones.
func (w *inserting) batch(ctx context.Context, tx *sql.Tx, id decision.BatchID) error {
	now := w.store.o.Now()
	done, err := w.addBatch.ExecContext(ctx, id[:], now.Unix())
	if err != nil {
		return err
	}
	added, err := done.RowsAffected()
	if err != nil {
		return err
	}
	if added == 0 {
		return errStored
	}
	n, err := done.LastInsertId()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM batch WHERE n < max(?, (SELECT n FROM batch WHERE at >= ? ORDER BY n LIMIT 1))", n-maxBatches+1, now.Add(-batchAge).Unix())
	return err
}
