package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"ephor.invalid/ephor/internal/decision"
)

// Tidy deletes records that are too old, and the oldest ones if there are too many.
func (s *SQLite) Tidy(ctx context.Context) error {
	if err := s.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.turn.Release(1)
	if s.write == nil {
		return nil // it is not open yet
	}
	return s.bound(ctx)
}

// bound deletes some of the oldest records if there are too many or if they are too old. One call deletes more than one batch adds.
func (s *SQLite) bound(ctx context.Context) error {
	if now := s.o.Now(); s.o.MaxAge > 0 && now.Sub(s.looked) >= trimEvery {
		n, err := s.before(ctx, now.Add(-s.o.MaxAge).UnixMicro())
		if err != nil {
			return err
		}
		if n < trimRows {
			s.looked = now
		}
	}
	if s.o.MaxBytes == 0 {
		return nil
	}
	used, err := s.used(ctx)
	if err != nil || float64(used) <= high*float64(s.o.MaxBytes) {
		return err
	}
	return s.trim(ctx, trimRows)
}

// used returns the size of the pages that are in use, in bytes.
func (s *SQLite) used(ctx context.Context) (int64, error) {
	var pages, free int64
	err := s.write.QueryRowContext(ctx, "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&pages, &free)
	return (pages - free) * pageSize, err
}

// trim deletes the oldest n records; if there are fewer, half of them.
func (s *SQLite) trim(ctx context.Context, n int) error {
	var id sql.NullInt64
	err := s.write.QueryRowContext(ctx, "SELECT id FROM decision ORDER BY id LIMIT 1 OFFSET ?", n).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.write.QueryRowContext(ctx, "SELECT id FROM decision ORDER BY id LIMIT 1 OFFSET (SELECT count(*) / 2 FROM decision)").Scan(&id)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.before(ctx, id.Int64)
	return err
}

// before deletes the oldest records before an id, at most trimRows, and the terms that no record uses any longer.
func (s *SQLite) before(ctx context.Context, id int64) (int64, error) {
	done, err := s.write.ExecContext(ctx, "DELETE FROM decision WHERE id IN (SELECT id FROM decision WHERE id < ? ORDER BY id LIMIT ?)", id, trimRows)
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	if err != nil || n == 0 {
		return 0, err
	}
	var first sql.NullInt64
	if err := s.write.QueryRowContext(ctx, "SELECT min(id) FROM decision").Scan(&first); err != nil {
		return 0, err
	}
	at, rest := int64(math.MaxInt64), int64(math.MaxInt64)
	if first.Valid {
		at, rest = first.Int64/hour, first.Int64
	}
	if err := s.deleteRequests(ctx, rest); err != nil {
		return 0, err
	}
	if at <= s.swept {
		return n, nil
	}
	clear(s.known)
	for _, text := range []string{
		"DELETE FROM shape_policy WHERE shape IN (SELECT id FROM term WHERE class = 4 AND class < 9 AND last < ?)",
		"DELETE FROM term WHERE last < ?",
	} {
		if _, err := s.write.ExecContext(ctx, text, at); err != nil {
			return 0, err
		}
	}
	if first.Valid {
		s.swept = at
	}
	return n, nil
}

// EraseUser implements decision.Eraser. The erased data is overwritten in the file.
func (s *SQLite) EraseUser(ctx context.Context, name string) (int, error) {
	if s.reads {
		return 0, errReads
	}
	release, err := s.use(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	terms, err := s.terms(ctx, s.write, classWho, func(r *decision.Record) bool { return r.User == name })
	if err != nil || len(terms) == 0 {
		return 0, err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	// Messages and names of objects may contain the name of the person, so terms that only these records use are deleted, too.
	if _, err := tx.ExecContext(ctx, "CREATE TEMP TABLE erased AS SELECT DISTINCT texts FROM decision WHERE texts IS NOT NULL AND who IN ("+list(terms)+")"); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(eraseRequests, list(terms))); err != nil {
		return 0, err
	}
	done, err := tx.ExecContext(ctx, "DELETE FROM decision WHERE who IN ("+list(terms)+")")
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM term WHERE id IN ("+list(terms)+") OR id IN (SELECT texts FROM erased WHERE texts NOT IN (SELECT texts FROM decision WHERE texts IS NOT NULL)); DROP TABLE erased"); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, eraseBodies); err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	s.forget()
	s.forgetParts()
	// Until the checkpoint, the write-ahead log has the erased data.
	_, err = s.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return int(n), err
}
