package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"ephor.invalid/ephor/internal/decision"
)

// The kinds of rows in the table of an erasure: texts and heads are terms.
const erasedTerm, erasedBody = 0, 1

// erasedTable creates the table of the data that only decisions of the erased user have.
const erasedTable = "CREATE TEMP TABLE IF NOT EXISTS erased (kind INTEGER, id INTEGER, PRIMARY KEY (kind, id)) WITHOUT ROWID; DELETE FROM erased"

// usedBy has the data of the decisions that a condition selects, with %[1]s in place of the condition.
const usedBy = `SELECT 0, texts FROM decision WHERE texts IS NOT NULL AND %[1]s
UNION SELECT 0, head FROM request WHERE id IN (SELECT id FROM decision WHERE %[1]s)
UNION SELECT 1, object FROM request WHERE object IS NOT NULL AND id IN (SELECT id FROM decision WHERE %[1]s)
UNION SELECT 1, old FROM request WHERE old IS NOT NULL AND id IN (SELECT id FROM decision WHERE %[1]s)
UNION SELECT 1, options FROM request WHERE options IS NOT NULL AND id IN (SELECT id FROM decision WHERE %[1]s)
UNION SELECT 1, value FROM request, json_each(request.lookups) WHERE value > 0 AND request.id IN (SELECT id FROM decision WHERE %[1]s)`

var (
	// errErasing is the error of an erasure during another one.
	errErasing = errors.New("another user is being erased")
	// errReopened is the error of an erasure whose file another call closed.
	errReopened = errors.New("the file was opened again: erase the user again")
)

// EraseUser implements decision.Eraser. The erased data is overwritten in the file. Messages and names of objects may contain the name of the
// person, so data that only these decisions use is erased, too. Each step is a transaction, and writes take turns with the steps. The data is
// erased before the decisions, so that another erasure finds what is left after a failure.
func (s *SQLite) EraseUser(ctx context.Context, name string) (n int, err error) {
	var terms []int64
	if err := s.eraseStep(ctx, func(tx *sql.Tx) (err error) {
		if terms, err = s.terms(ctx, tx, classWho, func(r *decision.Record) bool { return r.User == name }); err != nil || len(terms) == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, erasedTable)
		s.erasing = err == nil
		return err
	}, true); err != nil || len(terms) == 0 {
		return 0, err
	}
	user := "who IN (" + list(terms) + ")"
	if _, err := s.eraseWindows(ctx, fmt.Sprintf("INSERT OR IGNORE INTO erased "+usedBy, "id >= ?1 AND id < ?2 AND "+user)); err != nil {
		return 0, err
	}
	if _, err := s.eraseWindows(ctx, fmt.Sprintf("DELETE FROM erased WHERE (kind, id) IN ("+usedBy+")", "id >= ?1 AND id < ?2 AND (who IS NULL OR NOT "+user+")")); err != nil {
		return 0, err
	}
	for left := true; left; {
		if err := s.eraseStep(ctx, func(tx *sql.Tx) error {
			s.forget()
			s.forgetParts()
			_, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TEMP TABLE part AS SELECT kind, id FROM erased LIMIT %d;
DELETE FROM term WHERE id IN (SELECT id FROM part WHERE kind = %d);
DELETE FROM body WHERE id IN (SELECT id FROM part WHERE kind = %d);
DELETE FROM erased WHERE (kind, id) IN (SELECT kind, id FROM part);
DROP TABLE part`, stepRows, erasedTerm, erasedBody))
			if err != nil {
				return err
			}
			return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM erased)").Scan(&left)
		}, false); err != nil {
			return 0, err
		}
	}
	if _, err := s.eraseWindows(ctx, "DELETE FROM request WHERE id IN (SELECT id FROM decision WHERE id >= ?1 AND id < ?2 AND "+user+")"); err != nil {
		return 0, err
	}
	if n, err = s.eraseWindows(ctx, "DELETE FROM decision WHERE id >= ?1 AND id < ?2 AND "+user); err != nil {
		return n, err
	}
	err = s.eraseStep(ctx, func(tx *sql.Tx) error {
		s.forget()
		s.forgetParts()
		s.erasing = false
		_, err := tx.ExecContext(ctx, "DROP TABLE erased; DELETE FROM term WHERE id IN ("+list(terms)+") AND id NOT IN (SELECT who FROM decision WHERE "+user+")")
		return err
	}, false)
	if err != nil {
		return n, err
	}
	// Until the checkpoint, the write-ahead log has the erased data.
	return n, s.change(ctx, func() error {
		_, err := s.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	})
}

// eraseStep runs one step of an erasure in a transaction.
func (s *SQLite) eraseStep(ctx context.Context, run func(*sql.Tx) error, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return s.change(ctx, func() (err error) {
		switch {
		case first && s.erasing:
			return errErasing
		case !first && !s.erasing:
			return errReopened
		}
		defer func() { s.erasing = s.erasing && err == nil }()
		tx, err := s.write.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // no effect after Commit
		if err := run(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// eraseWindows runs a statement for each window of the decisions, whose ids are from ?1 to before ?2. It returns the number of rows that it changed.
func (s *SQLite) eraseWindows(ctx context.Context, text string) (n int, err error) {
	from := sql.NullInt64{Int64: math.MinInt64, Valid: true}
	for from.Valid {
		if err := s.eraseStep(ctx, func(tx *sql.Tx) error {
			var to sql.NullInt64
			err := tx.QueryRowContext(ctx, "SELECT id FROM decision WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?", from.Int64, stepRows).Scan(&to)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			end := int64(math.MaxInt64)
			if to.Valid {
				end = to.Int64
			}
			done, err := tx.ExecContext(ctx, text, from.Int64, end)
			if err != nil {
				return err
			}
			more, err := done.RowsAffected()
			n, from = n+int(more), to
			return err
		}, false); err != nil {
			return n, err
		}
	}
	return n, nil
}

// uses removes data that a new record uses from the data that is erased.
func (w *inserting) uses(ctx context.Context, kind int, id int64) error {
	if !w.store.erasing {
		return nil
	}
	_, err := w.tx.ExecContext(ctx, "DELETE FROM erased WHERE kind = ? AND id = ?", kind, id)
	return err
}
