package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"math/rand/v2"

	"modernc.org/sqlite"

	"ephor.invalid/ephor/internal/decision"
)

// Write implements decision.Store. It stores the records in one transaction, unless they take a large part of the file.
func (s *SQLite) Write(ctx context.Context, records []decision.Record) error {
	return s.WriteOnce(ctx, decision.BatchID{}, records)
}

// WriteOnce implements decision.OnceStore. The ID is stored in the transaction of the records. Each part of a batch that takes a large part of the file
// is stored with an ID of its own.
func (s *SQLite) WriteOnce(ctx context.Context, batch decision.BatchID, records []decision.Record) error {
	n := uint32(0)
	return inParts(records, func(part []decision.Record) error {
		part, err := s.fitting(part)
		if err != nil {
			return err
		}
		id := batch.Part(n)
		n++
		return s.change(ctx, func() error { return s.store(ctx, id, part) })
	})
}

// room is the space that is made for the records of one transaction.
func (s *SQLite) room() int64 { return min(largestBatch, s.o.MaxBytes/2) }

// fitting returns records that fit into the room, and tooLong for others. It removes the request of a single record that is too long with it.
func (s *SQLite) fitting(records []decision.Record) ([]decision.Record, error) {
	if s.o.MaxBytes == 0 || s.room() == largestBatch {
		return records, nil
	}
	text, err := decision.AppendBatch(nil, decision.BatchID{}, records)
	if err != nil {
		return nil, err
	}
	most := s.room()
	if len(records) > 1 {
		most /= 2 // the file may need twice the bytes: long values begin on new pages
	}
	switch {
	case int64(len(text)) <= most:
		return records, nil
	case len(records) > 1 || records[0].Request == nil:
		return nil, tooLong(len(text))
	}
	one := records[0]
	one.Request = nil
	s.o.Log.Error("a request was not recorded: it is too large for the file", "uid", one.UID, "bytes", len(text))
	return s.fitting([]decision.Record{one})
}

// store stores records in one transaction, and deletes some that are too old or too many.
func (s *SQLite) store(ctx context.Context, batch decision.BatchID, records []decision.Record) error {
	err := s.insert(ctx, batch, records)
	for full(err) {
		used, usedErr := s.used(ctx)
		if usedErr != nil || s.o.MaxBytes == 0 || used+s.room() < s.o.MaxBytes {
			return err // the disk is full, not the file: stored records stay
		}
		if n, trimErr := s.trim(ctx, trimRows); trimErr != nil || n == 0 {
			return errors.Join(err, trimErr)
		}
		err = s.insert(ctx, batch, records)
	}
	if errors.Is(err, errStored) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := s.bound(ctx); err != nil {
		s.o.Log.Error("old decisions were not deleted", "error", err)
	}
	return nil
}

// largestBatch bounds the bytes that a batch needs in the file.
const largestBatch = 16 << 20

// full reports whether the file has reached its size.
func full(err error) bool {
	const full = 13
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == full
}

// insert stores the records of a batch.
func (s *SQLite) insert(ctx context.Context, batch decision.BatchID, records []decision.Record) (err error) {
	defer func() {
		if err != nil {
			s.forget()
		}
	}()
	return inTransaction(ctx, s.write, func(tx *sql.Tx) error {
		w := inserting{store: s, tx: tx}
		for i, one := range s.prepared {
			w.prepared[i] = tx.StmtContext(ctx, one)
		}
		quick := context.WithoutCancel(ctx) // each statement that can be canceled costs a goroutine
		if batch != (decision.BatchID{}) {
			if err := w.batch(quick, batch); err != nil {
				return err
			}
		}
		for i := range records {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.record(quick, &records[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// The statements that store records.
const (
	findTerm = iota
	addTerm
	touchTerm
	addShape
	findBody
	addBody
	touchBody
	addRequest
	addBatch
	addDecision
)

var sqliteStatements = [...]string{
	findTerm:    "SELECT id, last FROM term WHERE key = ?",
	addTerm:     "INSERT INTO term (key, value, last, class) VALUES (?, ?, ?, ?)",
	touchTerm:   "UPDATE term SET last = ? WHERE id = ?",
	addShape:    "INSERT OR IGNORE INTO shape_policy (policy, shape) VALUES (?, ?)",
	findBody:    "SELECT id, last FROM body WHERE key = ?",
	addBody:     "INSERT INTO body (key, value, last) VALUES (?, ?, ?)",
	touchBody:   "UPDATE body SET last = ? WHERE id = ?",
	addRequest:  "INSERT OR REPLACE INTO request (id, head, object, old, options, lookups) VALUES (?, ?, ?, ?, ?, ?)",
	addBatch:    "INSERT OR IGNORE INTO batch (id, at) VALUES (?, ?)",
	addDecision: "INSERT OR IGNORE INTO decision (" + columns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
}

// statements has a prepared statement for each of sqliteStatements.
type statements [len(sqliteStatements)]*sql.Stmt

// inserting is one transaction that stores records.
type inserting struct {
	store    *SQLite
	tx       *sql.Tx
	text     []byte
	prepared statements // in the transaction
}

func (w *inserting) record(ctx context.Context, r *decision.Record) error {
	p := split(r)
	rest, err := p.rest.AppendProto(nil)
	if err != nil {
		return err
	}
	id, at := r.Time.UnixMicro(), int64(0) // at is the hour of the terms: they are kept as long as decisions of that hour
	var terms []any
	for attempt := 0; ; attempt++ {
		if terms == nil || at != id/hour {
			at = id / hour
			if terms, err = w.terms(ctx, r, p, at); err != nil {
				return err
			}
		}
		row := append(append(append(make([]any, 0, 13), id, p.uid), terms...), orNull(r.Name), r.Duration.Microseconds(), orNull(p.times), orNull(p.object), orNull(p.patch), orNull(rest))
		n, err := affected(w.prepared[addDecision].ExecContext(ctx, row...))
		switch {
		case err != nil:
			return err
		case n > 0 && r.Request != nil:
			return w.request(ctx, id, r.Request)
		case n > 0:
			return nil
		}
		id += 1 + rand.Int64N(1<<min(attempt, 20)) // the number is in use; one soon after it is free
	}
}

// terms returns the ids of the terms of a record, and adds the new ones.
func (w *inserting) terms(ctx context.Context, r *decision.Record, p *parts, at int64) (ids []any, err error) {
	for column := range p.terms {
		term, added, err := w.term(ctx, classes[column], &p.terms[column], at)
		if err != nil {
			return nil, err
		}
		if column == shapeColumn && added {
			for _, x := range r.Rules {
				if _, err := w.prepared[addShape].ExecContext(ctx, x.Policy, term); err != nil {
					return nil, err
				}
			}
		}
		ids = append(ids, term)
	}
	return ids, nil
}

// orNull returns nil for an empty value.
func orNull[T string | []byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return v
}

// term returns the id of the term with a part of a record, and adds the term if it is new; nil for an empty part.
func (w *inserting) term(ctx context.Context, class int, part *decision.Record, at int64) (id any, added bool, err error) {
	text, err := part.AppendProto(append(w.text[:0], byte(class)))
	if err != nil || len(text) == 1 {
		return nil, false, err
	}
	w.text = text
	sum := sha256.Sum256(text)
	n, added, err := w.look(ctx, &w.store.termRows, [16]byte(sum[:16]), text[1:], at, class)
	return n, added, err
}

// interned is a table of values that are stored once: the terms, or the bodies. The rows that were used are kept in memory.
type interned struct {
	find, add, touch int // its statements
	kind             int // of its rows, in the table of an erasure
	rows             map[[16]byte]lastUse
}

// lastUse has the id of a value, and the time of the last decision with it in the unit of the table.
type lastUse struct{ id, last int64 }

// look returns the id of a value, and adds the value if it is new. more has the columns of a new row after the key, the value and its last use.
func (w *inserting) look(ctx context.Context, t *interned, key [16]byte, value []byte, at int64, more ...any) (id int64, added bool, err error) {
	x, known := t.rows[key]
	if !known {
		err := w.prepared[t.find].QueryRowContext(ctx, key[:]).Scan(&x.id, &x.last)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			done, err := w.prepared[t.add].ExecContext(ctx, append([]any{key[:], value, at}, more...)...)
			if err != nil {
				return 0, false, err
			}
			if x.id, err = done.LastInsertId(); err != nil {
				return 0, false, err
			}
			x.last, added = at, true
		case err != nil:
			return 0, false, err
		}
	}
	if x.last < at {
		if _, err := w.prepared[t.touch].ExecContext(ctx, at, x.id); err != nil {
			return 0, false, err
		}
		x.last, known = at, false
	}
	if !known {
		if len(t.rows) >= maxTerms {
			clear(t.rows)
		}
		t.rows[key] = x
	}
	return x.id, added, w.uses(ctx, t.kind, x.id)
}
