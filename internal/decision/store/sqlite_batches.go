package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// The table of stored batches. Programs that do not know it ignore it.
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

// batch stores the ID of a batch, and deletes old IDs.
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
