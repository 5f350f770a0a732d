package store

import (
	"context"
	"database/sql"
	"encoding/json"
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

// bodiesEach is the number of bodies that are deleted for each decision: three of its request, and answers of lookups.
const bodiesEach = 8

// pageBytes bounds the texts and bodies of one page: the page ends with the record that exceeds it.
const pageBytes = 16 << 20

// request stores the request of a decision.
func (w *inserting) request(ctx context.Context, id int64, q *decision.Request) error {
	q, bodies := separate(q)
	head, _, err := w.term(ctx, classHead, &decision.Record{Request: q}, id/hour)
	if err != nil {
		return err
	}
	ids := make([]int64, len(bodies))
	columns := []any{id, head, nil, nil, nil, nil}
	for i, b := range bodies {
		if b == nil {
			continue
		}
		if ids[i], err = w.body(ctx, b, id/second); err != nil {
			return err
		}
		if i < 3 {
			columns[2+i] = ids[i]
		}
	}
	if answers := ids[3:]; len(answers) > 0 {
		columns[5] = "[" + list(answers) + "]"
	}
	_, err = w.prepared[addRequest].ExecContext(ctx, columns...)
	return err
}

// body returns the id of a body, and adds the body if it is new.
func (w *inserting) body(ctx context.Context, b *decision.Body, at int64) (int64, error) {
	key, text, err := encoded(b, w.text[:0])
	if err != nil {
		return 0, err
	}
	w.text = text
	id, _, err := w.look(ctx, &w.store.bodyRows, key, text, at)
	return id, err
}

// deleteRequests deletes the requests of decisions before an id, and the bodies that only they used. Of the bodies that were last
// used in the second of that id, it keeps those that later decisions in that second use. It deletes more bodies than most decisions have; others
// are left for the next call.
func (s *SQLite) deleteRequests(ctx context.Context, first int64, most int) error {
	if _, err := s.write.ExecContext(ctx, "DELETE FROM request WHERE id < ?", first); err != nil {
		return err
	}
	clear(s.bodyRows.rows)
	at := first / second
	if _, err := s.write.ExecContext(ctx, "DELETE FROM body WHERE id IN (SELECT id FROM body WHERE last < ? LIMIT ?)", at, bodiesEach*most); err != nil || at == math.MaxInt64/second {
		return err
	}
	_, err := s.write.ExecContext(ctx, `WITH some AS (SELECT object, old, options, lookups FROM request WHERE id < ?)
DELETE FROM body WHERE last = ? AND id NOT IN (
  SELECT object FROM some WHERE object IS NOT NULL UNION ALL SELECT old FROM some WHERE old IS NOT NULL UNION ALL SELECT options FROM some WHERE options IS NOT NULL
  UNION ALL SELECT value FROM some, json_each(some.lookups))`,
		(at+1)*second, at)
	return err
}

// requests adds the requests to the records with these ids. It returns the number of records that fit on the page, at least one.
func (r *pageReader) requests(ctx context.Context, records []decision.Record, ids []int64) (n int, err error) {
	heads, bodies, at := map[int64]int64{}, make([][]int64, len(ids)), make(map[int64]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	lookups := "lookups"
	if r.store.version < 3 {
		lookups = "NULL" // the writer has an earlier version
	}
	if err := each(ctx, r.tx, func(from *sql.Rows) (bool, error) {
		var id, head int64
		var lookups sql.RawBytes
		of, answers := make([]int64, 3), []int64{}
		err := from.Scan(&id, &head, &of[0], &of[1], &of[2], &lookups)
		if err == nil && len(lookups) > 0 {
			err = json.Unmarshal(lookups, &answers)
		}
		heads[id], bodies[at[id]] = head, append(of, answers...)
		return true, err
	}, "SELECT id, head, coalesce(object, 0), coalesce(old, 0), coalesce(options, 0), "+lookups+" FROM request WHERE id IN ("+list(ids)+")"); err != nil {
		return 0, err
	}
	var found map[int64]*decision.Body
	found, n, r.bytes, err = readBodies(bodies, r.bytes, func(ids []int64, text bool, scan func(int64, int64, []byte) error) error {
		value := "NULL"
		if text {
			value = "value"
		}
		return each(ctx, r.tx, func(from *sql.Rows) (bool, error) {
			var id, length int64
			var value sql.RawBytes
			if err := from.Scan(&id, &length, &value); err != nil {
				return false, err
			}
			return true, scan(id, length, value)
		}, "SELECT id, length(value), "+value+" FROM body WHERE id IN ("+list(ids)+")")
	})
	if err != nil {
		return 0, err
	}
	for i, id := range ids[:n] {
		if bodies[i] == nil {
			continue
		}
		head, err := r.store.part(ctx, r.tx, sql.NullInt64{Int64: heads[id], Valid: true})
		if err != nil {
			return 0, err
		}
		if head.Request == nil {
			continue
		}
		if records[i].Request, err = united(head.Request, bodies[i], found); err != nil {
			return 0, err
		}
	}
	return n, nil
}
