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

// Write implements decision.Store. It stores the records in one transaction.
func (s *SQLite) Write(ctx context.Context, records []decision.Record) error {
	return s.WriteOnce(ctx, decision.BatchID{}, records)
}

// WriteOnce implements decision.OnceStore. The ID is stored in the transaction of the records.
func (s *SQLite) WriteOnce(ctx context.Context, batch decision.BatchID, records []decision.Record) error {
	return s.change(ctx, func() error {
		err := s.store(ctx, batch, records)
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
	})
}

// store stores the records of a batch. It sets a damaged file aside, and makes room in a full one.
func (s *SQLite) store(ctx context.Context, batch decision.BatchID, records []decision.Record) error {
	err := s.insert(ctx, batch, records)
	for again := false; damaged(err); again = true {
		// An open file looks damaged, too, if its volume was away. So it is opened again and checked, which sets it aside if it is damaged.
		if s.end(); again {
			if err := s.setAside(err); err != nil {
				return err
			}
		}
		s.suspect = !again
		if err := s.opened(ctx); err != nil {
			return err
		}
		if err = s.insert(ctx, batch, records); again {
			break
		}
	}
	for attempt := 0; attempt < maxTrims && full(err); attempt++ {
		used, usedErr := s.used(ctx)
		if usedErr != nil || s.o.MaxBytes == 0 || used+largestBatch < s.o.MaxBytes {
			return err // the disk is full, not the file: stored records stay
		}
		if _, err := s.trim(ctx, trimRows); err != nil {
			return err
		}
		err = s.insert(ctx, batch, records)
	}
	return err
}

// largestBatch bounds the bytes that a batch needs in the file.
const largestBatch = 16 << 20

// maxTrims is how often records are deleted for one batch. Each deletion frees the room of many records, or half of the file.
const maxTrims = 3

// full reports whether the file has reached its size.
func full(err error) bool {
	const full = 13
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == full
}

// insert stores the records of a batch.
func (s *SQLite) insert(ctx context.Context, batch decision.BatchID, records []decision.Record) (err error) {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the first error is reported
			s.forget()
		}
	}()
	w := inserting{store: s, tx: tx}
	for _, p := range []struct{ to, from **sql.Stmt }{
		{&w.find, &s.find}, {&w.add, &s.add}, {&w.touch, &s.touch}, {&w.mark, &s.mark}, {&w.put, &s.put},
		{&w.findBody, &s.findBody}, {&w.addBody, &s.addBody}, {&w.touchBody, &s.touchBody}, {&w.putRequest, &s.putRequest}, {&w.addBatch, &s.addBatch},
	} {
		*p.to = tx.StmtContext(ctx, *p.from)
	}
	quick := context.WithoutCancel(ctx) // each statement that can be canceled costs a goroutine
	if batch != (decision.BatchID{}) {
		if err := w.batch(quick, tx, batch); err != nil {
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
	return tx.Commit()
}

// inserting is one transaction that stores records.
type inserting struct {
	store *SQLite
	tx    *sql.Tx
	text  []byte
	// The statements of the store, in the transaction.
	find, add, touch, mark, put, findBody, addBody, touchBody, putRequest, addBatch *sql.Stmt
}

func (w *inserting) record(ctx context.Context, r *decision.Record) error {
	p := split(r)
	id := r.Time.UnixMicro()
	at := id / hour
	what, err := w.term(ctx, classWhat, &p.what, at)
	if err != nil {
		return err
	}
	who, err := w.term(ctx, classWho, &p.who, at)
	if err != nil {
		return err
	}
	place, err := w.term(ctx, classPlace, &p.place, at)
	if err != nil {
		return err
	}
	shape, err := w.shape(ctx, &p.shape, at)
	if err != nil {
		return err
	}
	texts, err := w.term(ctx, classTexts, &p.texts, at)
	if err != nil {
		return err
	}
	rest, err := p.rest.AppendProto(nil)
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		done, err := w.put.ExecContext(ctx, id, p.uid, what, who, place, orNull(r.Name), shape, texts, r.Duration.Microseconds(), orNull(p.times), orNull(p.object), orNull(p.patch), orNull(rest))
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
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

// orNull returns nil for an empty value.
func orNull[T string | []byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return v
}

// shape returns the term of the rules, and stores which policies they belong to.
func (w *inserting) shape(ctx context.Context, part *decision.Record, at int64) (any, error) {
	id, added, err := w.look(ctx, classShape, part, at)
	if err != nil || !added {
		return id, err
	}
	for _, x := range part.Rules {
		if _, err := w.mark.ExecContext(ctx, x.Policy, id); err != nil {
			return nil, err
		}
	}
	return id, nil
}

func (w *inserting) term(ctx context.Context, class int, part *decision.Record, at int64) (any, error) {
	id, _, err := w.look(ctx, class, part, at)
	return id, err
}

// look returns the id of a part of a record, and adds the part if it is new; nil for an empty part.
func (w *inserting) look(ctx context.Context, class int, part *decision.Record, at int64) (id any, added bool, err error) {
	text, err := part.AppendProto(append(w.text[:0], byte(class)))
	if err != nil || len(text) == 1 {
		return nil, false, err
	}
	w.text = text
	sum := sha256.Sum256(text)
	key := [16]byte(sum[:16])
	s := w.store
	t, known := s.known[key]
	if !known {
		err := w.find.QueryRowContext(ctx, key[:]).Scan(&t.id, &t.last)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			done, err := w.add.ExecContext(ctx, class, key[:], text[1:], at)
			if err != nil {
				return nil, false, err
			}
			if t.id, err = done.LastInsertId(); err != nil {
				return nil, false, err
			}
			t.last, added = at, true
		case err != nil:
			return nil, false, err
		}
	}
	if t.last < at {
		if _, err := w.touch.ExecContext(ctx, at, t.id); err != nil {
			return nil, false, err
		}
		t.last, known = at, false
	}
	if !known {
		if len(s.known) >= maxTerms {
			clear(s.known)
		}
		s.known[key] = t
	}
	return t.id, added, w.uses(ctx, erasedTerm, t.id)
}
