package store

import (
	"context"
	"errors"
	"math"
)

// Tidy deletes records that are too old, and the oldest ones if there are too many. Writes take turns with its steps. If there are many, it
// deletes a part of them.
func (s *SQLite) Tidy(ctx context.Context) error {
	return forAWhile(func() (more bool, err error) {
		err = s.change(ctx, func() error {
			more, err = s.bound(ctx)
			return err
		})
		if errors.Is(err, errLocked) {
			return false, nil // the other process deletes them
		}
		return more, err
	})
}

// bound deletes some of the oldest records if there are too many or if they are too old, and reports whether there may be more of them. One call
// deletes more than one batch adds.
func (s *SQLite) bound(ctx context.Context) (more bool, err error) {
	if now := s.o.Now(); s.o.MaxAge > 0 && now.Sub(s.looked) >= trimEvery {
		n, err := s.before(ctx, now.Add(-s.o.MaxAge).UnixMicro(), stepRows)
		if err != nil {
			return false, err
		}
		if more = n == stepRows; !more {
			s.looked = now
		}
	}
	if s.o.MaxBytes == 0 {
		return more, nil
	}
	used, err := s.used(ctx)
	if err != nil || float64(used) <= high*float64(s.o.MaxBytes) {
		return more, err
	}
	n, err := s.trim(ctx, stepRows)
	return more || n > 0, err
}

// used returns the size of the pages that are in use, in bytes.
func (s *SQLite) used(ctx context.Context) (int64, error) {
	var pages, free int64
	err := s.write.QueryRowContext(ctx, "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&pages, &free)
	return (pages - free) * pageSize, err
}

// trim deletes the oldest n records; if there are fewer, half of them, at least one. It returns their number.
func (s *SQLite) trim(ctx context.Context, n int) (int64, error) {
	id, ok, err := number(ctx, s.write, "SELECT id FROM decision ORDER BY id LIMIT 1 OFFSET ?", n)
	if err == nil && !ok {
		id, ok, err = number(ctx, s.write, "SELECT id + 1 FROM decision ORDER BY id LIMIT 1 OFFSET (SELECT (count(*) - 1) / 2 FROM decision)")
	}
	if err != nil || !ok {
		return 0, err
	}
	return s.before(ctx, id, n)
}

// before deletes the oldest records before an id, at most most of them, and terms that no record uses any longer.
func (s *SQLite) before(ctx context.Context, id int64, most int) (int64, error) {
	n, err := affected(s.write.ExecContext(ctx, "DELETE FROM decision WHERE id IN (SELECT id FROM decision WHERE id < ? ORDER BY id LIMIT ?)", id, most))
	if err != nil || n == 0 {
		return 0, err
	}
	first, some, err := number(ctx, s.write, "SELECT min(id) FROM decision")
	if err != nil {
		return 0, err
	}
	at := first / hour
	if !some {
		at, first = math.MaxInt64, math.MaxInt64
	}
	if err := s.deleteRequests(ctx, first, most); err != nil {
		return 0, err
	}
	if at <= s.swept {
		return n, nil
	}
	clear(s.termRows.rows)
	swept, err := affected(s.write.ExecContext(ctx, "DELETE FROM term WHERE id IN (SELECT id FROM term WHERE last < ? LIMIT ?)", at, most))
	if err != nil {
		return 0, err
	}
	if _, err := s.write.ExecContext(ctx, "DELETE FROM shape_policy WHERE shape NOT IN (SELECT id FROM term WHERE class = 4 AND class < 9)"); err != nil {
		return 0, err
	}
	if some && swept < int64(most) {
		s.swept = at
	}
	return n, nil
}
