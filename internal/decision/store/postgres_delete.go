package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// apart runs a deletion on a connection of its own. Writers have others, and do not wait for it.
func (s *Postgres) apart(ctx context.Context, run func(*sql.Conn) error) error {
	if s.reads {
		return errReads
	}
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return run(c)
}

// step runs one statement in a limited time, and returns the number of rows that it changed.
func step(ctx context.Context, c *sql.Conn, text string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return affected(c.ExecContext(ctx, text, args...))
}

// The statements that delete some of the rows that are too old: the decisions, then the bodies.
const (
	deleteOld = `DELETE FROM ephor_decisions WHERE id IN (SELECT id FROM ephor_decisions WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`

	deleteOldBodies = `DELETE FROM ephor_decisions_bodies WHERE key IN (SELECT key FROM ephor_decisions_bodies WHERE last < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

// Tidy deletes records that are too old. If there are many, it deletes a part of them.
func (s *Postgres) Tidy(ctx context.Context) error {
	return s.apart(ctx, func(c *sql.Conn) error {
		if err := forgetBatches(ctx, c); err != nil || s.o.MaxAge <= 0 {
			return err
		}
		before := s.o.Now().Add(-s.o.MaxAge).UnixMicro()
		texts, limits := []string{deleteOld, deleteOldBodies}, []int64{before, before / hour}
		return forAWhile(func() (more bool, err error) {
			n, err := step(ctx, c, texts[0], limits[0], trimRows)
			if n < trimRows {
				texts, limits = texts[1:], limits[1:]
			}
			return len(texts) > 0, err
		})
	})
}

// The statements that erase the data of a user. Those with a window take the decisions whose ids are from $1 to $2.
const (
	// ofUser selects the decisions of a user: names in the column can be cut, and the record has the whole name.
	ofUser = `(username = $3 AND position($4::bytea in record) > 0)`

	createErased = `CREATE TEMP TABLE ephor_erased (key bytea PRIMARY KEY)`
	// findErased adds the bodies of the user; keepShared and keepNew remove those that other decisions have.
	findErased = `INSERT INTO ephor_erased SELECT DISTINCT key FROM ephor_decisions, unnest(bodies) key
WHERE id BETWEEN $1 AND $2 AND ` + ofUser + ` AND key IS NOT NULL ON CONFLICT DO NOTHING`
	keepShared = `DELETE FROM ephor_erased WHERE key IN (SELECT key FROM ephor_decisions, unnest(bodies) key
WHERE id BETWEEN $1 AND $2 AND NOT ` + ofUser + ` AND key IS NOT NULL)`
	keepNew = `DELETE FROM ephor_erased WHERE key IN (SELECT key FROM ephor_decisions, unnest(bodies) key WHERE id > $1 AND key IS NOT NULL)`

	deleteErased = `WITH part AS (DELETE FROM ephor_erased WHERE key IN (SELECT key FROM ephor_erased LIMIT $1) RETURNING key)
DELETE FROM ephor_decisions_bodies WHERE key IN (SELECT key FROM part)`
	eraseDecisions = `DELETE FROM ephor_decisions WHERE id BETWEEN $1 AND $2 AND ` + ofUser
)

// eraseRows is the number of bodies that are deleted while writers wait.
const eraseRows = 2000

// EraseUser implements decision.Eraser. Decisions that are stored after it began are newer than the erasure.
func (s *Postgres) EraseUser(ctx context.Context, name string) (n int, err error) {
	whole, err := (&decision.Record{User: name}).AppendProto(nil)
	if err != nil {
		return 0, err
	}
	err = s.apart(ctx, func(c *sql.Conn) error {
		var last int64
		if err := s.alone(ctx, c, func(ctx context.Context, tx *sql.Tx) (err error) {
			if _, err := tx.ExecContext(ctx, createErased); err != nil {
				return err
			}
			last, _, err = number(ctx, tx, lastID)
			return err
		}); err != nil {
			return err
		}
		known := last // the id up to which it is known which decisions have the data
		e := &erasure{
			find: findErased, keep: keepShared, delete: []string{eraseDecisions},
			window: func(ctx context.Context, text string, from int64) (n, next int64, more bool, err error) {
				ctx, cancel := context.WithTimeout(ctx, queryTimeout)
				defer cancel()
				next, more, err = number(ctx, c, "SELECT id FROM ephor_decisions WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT 1 OFFSET $3", from, last, trimRows)
				if err != nil {
					return 0, 0, false, err
				}
				if !more {
					next = last + 1
				}
				n, err = affected(c.ExecContext(ctx, text, from, next-1, plain(name), whole))
				return n, next, more, err
			},
			part: func(ctx context.Context) (left bool, err error) {
				err = s.alone(ctx, c, func(ctx context.Context, tx *sql.Tx) error {
					if _, err := tx.ExecContext(ctx, keepNew, known); err != nil {
						return err
					}
					if _, err := tx.ExecContext(ctx, deleteErased, eraseRows); err != nil {
						return err
					}
					var err error
					if _, left, err = number(ctx, tx, "SELECT 1 FROM ephor_erased LIMIT 1"); err == nil {
						known, _, err = number(ctx, tx, lastID)
					}
					return err
				})
				return left, err
			},
		}
		var err error
		n, err = e.run(ctx)
		return err
	})
	return n, err
}

// lastID selects the last id of a decision.
const lastID = "SELECT max(id) FROM ephor_decisions"

// aloneTime bounds the time for which writers wait: they have ten seconds for a batch.
const aloneTime = 6 * time.Second

// alone runs statements in a transaction while no writer of bodies has one: the decisions that it sees are all decisions up to the last id.
func (s *Postgres) alone(ctx context.Context, c *sql.Conn, run func(context.Context, *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, aloneTime)
	defer cancel()
	return inTransaction(ctx, c, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d; SELECT pg_advisory_xact_lock(%s)", aloneTime.Milliseconds(), bodiesLock)); err != nil {
			return err
		}
		return run(ctx, tx)
	})
}
