package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/decision"
)

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// terms returns the ids of the terms of a class that take accepts, in order.
func (s *SQLite) terms(ctx context.Context, from querier, class int, take func(*decision.Record) bool) (ids []int64, err error) {
	rows, err := from.QueryContext(ctx, "SELECT id, value FROM term WHERE class = ? AND class < 9 ORDER BY id", class)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var value sql.RawBytes
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id, &value); err != nil {
			return nil, err
		}
		r := s.remembered(id)
		if r == nil {
			r = &decision.Record{}
			if err := r.MergeProto(value); err != nil {
				return nil, err
			}
			s.remember(id, r, len(value))
		}
		if take(r) {
			if ids = append(ids, id); len(ids) > maxNames {
				return nil, errMany
			}
		}
	}
	return ids, rows.Err()
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
