package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"math"

	"ephor.invalid/ephor/internal/decision"
)

// The tables of recorded requests. A text in several requests is stored once.
const sqliteRequests = `
CREATE TABLE IF NOT EXISTS body (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key BLOB NOT NULL UNIQUE, -- 16 bytes of the SHA-256 of value
  last INTEGER NOT NULL, -- the last second that has a decision with it
  value BLOB NOT NULL -- message Body of decision.proto
);
CREATE INDEX IF NOT EXISTS body_last ON body (last);
CREATE TABLE IF NOT EXISTS request (
  id INTEGER PRIMARY KEY, -- of the decision
  head INTEGER NOT NULL, -- the term with the request, without its bodies
  object INTEGER,
  old INTEGER,
  options INTEGER,
  lookups TEXT -- JSON list of the bodies of answers, in the order of the lookups; 0 for none
);
`

// columnLookups adds the column to a table of an earlier version.
const columnLookups = "ALTER TABLE request ADD COLUMN lookups TEXT;\n"

// classHead is the class of terms that hold requests without their bodies.
const classHead = 10

// second is the unit of the column last of a body, in microseconds.
const second = int64(1e6)

// pageBytes bounds the texts and bodies of one page: the page ends with the record that exceeds it.
const pageBytes = 16 << 20

// headOf returns the part of a request that many requests have in common.
func headOf(q *decision.Request) *decision.Record {
	head := *q
	head.Object, head.OldObject, head.Options = nil, nil, nil
	if head.Lookups != nil {
		head.Lookups = head.Lookups.WithAnswers(nil)
	}
	return &decision.Record{Request: &head}
}

// bodiesOf returns pointers to the bodies of a request, in the order of the columns.
func bodiesOf(q *decision.Request) [3]**decision.Body {
	return [3]**decision.Body{&q.Object, &q.OldObject, &q.Options}
}

// request stores the request of a decision.
func (w *inserting) request(ctx context.Context, id int64, q *decision.Request) error {
	head, err := w.term(ctx, classHead, headOf(q), id/hour)
	if err != nil {
		return err
	}
	columns := []any{id, head, nil, nil, nil, nil}
	for i, b := range bodiesOf(q) {
		if *b == nil {
			continue
		}
		if columns[2+i], err = w.body(ctx, *b, id/second); err != nil {
			return err
		}
	}
	answers := q.Lookups.Answers()
	ids := make([]int64, len(answers))
	for i, b := range answers {
		if b == nil {
			continue
		}
		if ids[i], err = w.body(ctx, b, id/second); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		columns[5] = "[" + list(ids) + "]"
	}
	_, err = w.putRequest.ExecContext(ctx, columns...)
	return err
}

// body returns the id of a body, and adds the body if it is new. The key is computed from the whole body, since the digest that the sender
// states may be wrong.
func (w *inserting) body(ctx context.Context, b *decision.Body, at int64) (id int64, err error) {
	if w.text, err = b.AppendProto(w.text[:0]); err != nil {
		return 0, err
	}
	sum := sha256.Sum256(w.text)
	key := [16]byte(sum[:16])
	s := w.store
	t, known := s.bodies[key]
	if !known {
		err := w.findBody.QueryRowContext(ctx, key[:]).Scan(&t.id, &t.last)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			done, err := w.addBody.ExecContext(ctx, key[:], at, w.text)
			if err != nil {
				return 0, err
			}
			if t.id, err = done.LastInsertId(); err != nil {
				return 0, err
			}
			t.last = at
		case err != nil:
			return 0, err
		}
	}
	if t.last < at {
		if _, err := w.touchBody.ExecContext(ctx, at, t.id); err != nil {
			return 0, err
		}
		t.last, known = at, false
	}
	if !known {
		if len(s.bodies) >= maxTerms {
			clear(s.bodies)
		}
		s.bodies[key] = t
	}
	return t.id, nil
}

// deleteRequests deletes the requests of decisions before an id, and the bodies that only they used. Of the bodies that were last
// used in the second of that id, it keeps those that later decisions in that second use.
func (s *SQLite) deleteRequests(ctx context.Context, first int64) error {
	if _, err := s.write.ExecContext(ctx, "DELETE FROM request WHERE id < ?", first); err != nil {
		return err
	}
	clear(s.bodies)
	at := first / second
	if _, err := s.write.ExecContext(ctx, "DELETE FROM body WHERE last < ?", at); err != nil || at == math.MaxInt64/second {
		return err
	}
	_, err := s.write.ExecContext(ctx, `WITH some AS (SELECT object, old, options, lookups FROM request WHERE id < ?)
DELETE FROM body WHERE last = ? AND id NOT IN (
  SELECT object FROM some WHERE object IS NOT NULL UNION ALL SELECT old FROM some WHERE old IS NOT NULL UNION ALL SELECT options FROM some WHERE options IS NOT NULL
  UNION ALL SELECT value FROM some, json_each(some.lookups))`,
		(at+1)*second, at)
	return err
}

// The statements that erase the requests of some decisions: before and after the deletion of the decisions. Data that other requests use,
// too, is kept.
const (
	eraseRequests = `CREATE TEMP TABLE erased_request AS SELECT * FROM request WHERE id IN (SELECT id FROM decision WHERE who IN (%s));
DELETE FROM request WHERE id IN (SELECT id FROM erased_request)`
	eraseBodies = `DELETE FROM body WHERE id IN (SELECT object FROM erased_request UNION SELECT old FROM erased_request UNION SELECT options FROM erased_request UNION SELECT value FROM erased_request, json_each(erased_request.lookups))
  AND id NOT IN (SELECT object FROM request WHERE object IS NOT NULL UNION SELECT old FROM request WHERE old IS NOT NULL UNION SELECT options FROM request WHERE options IS NOT NULL
    UNION SELECT value FROM request, json_each(request.lookups));
DELETE FROM term WHERE id IN (SELECT head FROM erased_request) AND id NOT IN (SELECT head FROM request);
DROP TABLE erased_request`
)

// requestRow is a row of the table.
type requestRow struct {
	head   int64
	bodies [3]sql.NullInt64
	// answers has the ids of the answers of the lookups; 0 stands for no answer.
	answers []int64
}

// all returns the bodies of the row.
func (r *requestRow) all() (out []int64) {
	for _, b := range r.bodies {
		if b.Valid {
			out = append(out, b.Int64)
		}
	}
	for _, id := range r.answers {
		if id != 0 {
			out = append(out, id)
		}
	}
	return out
}

// requests adds the requests to the records with these ids. It returns the number of records that fit on the page, at least one.
func (r *pageReader) requests(ctx context.Context, records []decision.Record, ids []int64) (n int, err error) {
	rows, sizes := map[int64]requestRow{}, map[int64]int64{}
	lookups := "lookups"
	if r.store.version < 3 {
		lookups = "NULL" // the writer has an earlier version
	}
	if err := r.each(ctx, "SELECT id, head, object, old, options, "+lookups+" FROM request WHERE id IN ("+list(ids)+")", func(from *sql.Rows) error {
		var id int64
		var row requestRow
		var lookups sql.RawBytes
		err := from.Scan(&id, &row.head, &row.bodies[0], &row.bodies[1], &row.bodies[2], &lookups)
		if err == nil && len(lookups) > 0 {
			err = json.Unmarshal(lookups, &row.answers)
		}
		rows[id] = row
		for _, b := range row.all() {
			sizes[b] = 0
		}
		return err
	}); err != nil {
		return 0, err
	}
	if err := r.each(ctx, "SELECT id, length(value) FROM body WHERE id IN ("+list(keys(sizes))+")", func(from *sql.Rows) error {
		var id, size int64
		err := from.Scan(&id, &size)
		sizes[id] = size
		return err
	}); err != nil {
		return 0, err
	}
	wanted := map[int64]*decision.Body{}
	for ; n < len(ids); n++ {
		more := int64(0)
		row := rows[ids[n]]
		for _, b := range row.all() {
			if _, has := wanted[b]; !has {
				more += sizes[b]
			}
		}
		if r.bytes += more; r.bytes > pageBytes && n > 0 {
			break
		}
		for _, b := range row.all() {
			wanted[b] = &decision.Body{}
		}
	}
	if err := r.each(ctx, "SELECT id, value FROM body WHERE id IN ("+list(keys(wanted))+")", func(from *sql.Rows) error {
		var id int64
		var value sql.RawBytes
		if err := from.Scan(&id, &value); err != nil {
			return err
		}
		return wanted[id].MergeProto(value)
	}); err != nil {
		return 0, err
	}
	for i, id := range ids[:n] {
		row, ok := rows[id]
		if !ok {
			continue
		}
		head, err := r.store.part(ctx, r.tx, sql.NullInt64{Int64: row.head, Valid: true})
		if err != nil {
			return 0, err
		}
		if head.Request == nil {
			continue
		}
		q := *head.Request
		for k, b := range bodiesOf(&q) {
			if row.bodies[k].Valid {
				*b = wanted[row.bodies[k].Int64]
			}
		}
		if q.Lookups != nil {
			answers := make([]*decision.Body, len(row.answers))
			for k, id := range row.answers {
				answers[k] = wanted[id]
			}
			q.Lookups = q.Lookups.WithAnswers(answers)
		}
		records[i].Request = &q
	}
	return n, nil
}

// each calls take for each row.
func (r *pageReader) each(ctx context.Context, query string, take func(*sql.Rows) error) (err error) {
	rows, err := r.tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// keys returns the keys of a map, in no particular order.
func keys[V any](m map[int64]V) []int64 {
	out := make([]int64, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
