package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/decision"
)

// terms returns the ids of the terms of a class that take accepts, in order.
func (s *SQLite) terms(ctx context.Context, from querier, class int, take func(*decision.Record) bool) (ids []int64, err error) {
	var value sql.RawBytes
	err = each(ctx, from, func(rows *sql.Rows) (bool, error) {
		var id int64
		if err := rows.Scan(&id, &value); err != nil {
			return false, err
		}
		r := s.remembered(id)
		if r == nil {
			r = &decision.Record{}
			if err := r.MergeProto(value); err != nil {
				return false, err
			}
			s.remember(id, r, len(value))
		}
		if take(r) {
			if ids = append(ids, id); len(ids) > maxNames {
				return false, errMany
			}
		}
		return true, nil
	}, "SELECT id, value FROM term WHERE class = ? AND class < 9 ORDER BY id", class)
	return ids, err
}

func (s *SQLite) remembered(id int64) *decision.Record {
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	return s.parts[id]
}

// remember keeps a term of some bytes in memory.
func (s *SQLite) remember(id int64, r *decision.Record, bytes int) {
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	if len(s.parts) >= maxTerms || s.partsBytes+bytes > maxTermBytes {
		clear(s.parts)
		s.partsBytes = 0
	}
	s.parts[id] = r
	s.partsBytes += bytes
}

// forgetParts clears the terms that queries keep in memory.
func (s *SQLite) forgetParts() {
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	clear(s.parts)
	s.partsBytes = 0
}

// list returns the ids as a list for SQL.
func list(ids []int64) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
}
