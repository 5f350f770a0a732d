package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"

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
	// errRead is the error of an erasure while another process reads what is erased.
	errRead = errors.New("another process reads the file, which still has the data of the deleted decisions: end it, and erase the user again")
)

// EraseUser implements decision.Eraser. The erased data is overwritten in the file. Messages and names of objects may contain the name of the
// person, so data that only these decisions use is erased, too. Each step is a transaction, and writes take turns with the steps.
func (s *SQLite) EraseUser(ctx context.Context, name string) (int, error) {
	n, err := s.eraseDecisions(ctx, name)
	if err == nil {
		err = s.emptyLog(ctx)
	}
	aside := s.path + damagedSuffix
	if _, statErr := os.Stat(aside); err == nil && statErr == nil {
		err = fmt.Errorf("%s was set aside because it is damaged, and may have data of the user: delete it, and erase the user again", aside)
	}
	return n, err
}

// eraseDecisions deletes the decisions of a user, and the data that only they have.
func (s *SQLite) eraseDecisions(ctx context.Context, name string) (n int, err error) {
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
	const window = "id >= ?1 AND id < ?2 AND "
	user := "who IN (" + list(terms) + ")"
	e := &erasure{
		find: fmt.Sprintf("INSERT OR IGNORE INTO erased "+usedBy, window+user),
		keep: fmt.Sprintf("DELETE FROM erased WHERE (kind, id) IN ("+usedBy+")", window+"(who IS NULL OR NOT "+user+")"),
		delete: []string{
			"DELETE FROM request WHERE id IN (SELECT id FROM decision WHERE " + window + user + ")",
			"DELETE FROM decision WHERE " + window + user,
		},
		window: s.eraseWindow, part: s.erasePart,
	}
	if n, err = e.run(ctx); err != nil {
		return n, err
	}
	return n, s.eraseStep(ctx, func(tx *sql.Tx) error {
		s.forget()
		s.forgetParts()
		s.erasing = false
		_, err := tx.ExecContext(ctx, "DROP TABLE erased; DELETE FROM term WHERE id IN ("+list(terms)+") AND id NOT IN (SELECT who FROM decision WHERE "+user+")")
		return err
	}, false)
}

// emptyLog moves what the write-ahead log has to the file. Until then, the log has the erased data.
func (s *SQLite) emptyLog(ctx context.Context) error {
	var busy, pages, moved int64
	if err := s.change(ctx, func() error {
		return s.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	}); err != nil || busy == 0 {
		return err
	}
	return errRead
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
		return inTransaction(ctx, s.write, run)
	})
}

// eraseWindow is the window of an erasure. The ids of its decisions are from ?1 to before ?2.
func (s *SQLite) eraseWindow(ctx context.Context, text string, from int64) (n, next int64, more bool, err error) {
	err = s.eraseStep(ctx, func(tx *sql.Tx) (err error) {
		next, more, err = number(ctx, tx, "SELECT id FROM decision WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?", from, stepRows)
		if err != nil {
			return err
		}
		if !more {
			next = math.MaxInt64
		}
		n, err = affected(tx.ExecContext(ctx, text, from, next))
		return err
	}, false)
	return n, next, more, err
}

// erasePart is the part of an erasure.
func (s *SQLite) erasePart(ctx context.Context) (left bool, err error) {
	err = s.eraseStep(ctx, func(tx *sql.Tx) error {
		s.forget()
		s.forgetParts()
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TEMP TABLE part AS SELECT kind, id FROM erased LIMIT %d;
DELETE FROM term WHERE id IN (SELECT id FROM part WHERE kind = %d);
DELETE FROM body WHERE id IN (SELECT id FROM part WHERE kind = %d);
DELETE FROM erased WHERE (kind, id) IN (SELECT kind, id FROM part);
DROP TABLE part`, stepRows, erasedTerm, erasedBody))
		if err == nil {
			_, left, err = number(ctx, tx, "SELECT 1 FROM erased LIMIT 1")
		}
		return err
	}, false)
	return left, err
}

// uses removes data that a new record uses from the data that is erased.
func (w *inserting) uses(ctx context.Context, kind int, id int64) error {
	if !w.store.erasing {
		return nil
	}
	_, err := w.tx.ExecContext(ctx, "DELETE FROM erased WHERE kind = ? AND id = ?", kind, id)
	return err
}
