package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// deleting is a connection for the deletion of records. Writers have others, and do not wait for it.
type deleting struct {
	conn    *pgconn.PgConn
	limited string
}

// apart runs a deletion on a connection of its own.
func (s *Postgres) apart(ctx context.Context, run func(deleting) error) error {
	if s.reads {
		return errReads
	}
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp(c)
	return run(deleting{c, s.limited})
}

// step runs one statement, and returns its rows and the number of rows that it changed.
func (d deleting) step(ctx context.Context, text string, args ...string) (rows [][][]byte, n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a)
	}
	done := d.conn.ExecParams(ctx, text, values, nil, nil, nil).Read()
	return done.Rows, done.CommandTag.RowsAffected(), done.Err
}

// The statements that delete some of the rows that are too old: the decisions, then the bodies.
const (
	deleteOld = `DELETE FROM ephor_decisions WHERE id IN (SELECT id FROM ephor_decisions WHERE at < $1::bigint ORDER BY at LIMIT $2::bigint FOR UPDATE SKIP LOCKED)`

	deleteOldBodies = `DELETE FROM ephor_decisions_bodies WHERE key IN (SELECT key FROM ephor_decisions_bodies WHERE last < $1::bigint LIMIT $2::bigint FOR UPDATE SKIP LOCKED)`
)

// Tidy deletes records that are too old. If there are many, it deletes a part of them.
func (s *Postgres) Tidy(ctx context.Context) error {
	return s.apart(ctx, func(d deleting) error {
		if err := d.forgetBatches(ctx); err != nil || s.o.MaxAge <= 0 {
			return err
		}
		before := s.o.Now().Add(-s.o.MaxAge).UnixMicro()
		end := time.Now().Add(tidyTime)
		for _, x := range []struct {
			text   string
			before int64
		}{{deleteOld, before}, {deleteOldBodies, before / hour}} {
			for n := int64(trimRows); n == trimRows; {
				if time.Now().After(end) {
					return nil
				}
				var err error
				if _, n, err = d.step(ctx, x.text, strconv.FormatInt(x.before, 10), strconv.Itoa(trimRows)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// The statements that erase the data of a user. Those with a window take the decisions whose ids are from $1 to $2.
const (
	createErased = `CREATE TEMP TABLE ephor_erased (key bytea PRIMARY KEY)`
	// findErased adds the bodies of the user; keepShared and keepNew remove those that other decisions have.
	findErased = `INSERT INTO ephor_erased SELECT DISTINCT key FROM ephor_decisions, unnest(bodies) key
WHERE id BETWEEN $1::bigint AND $2::bigint AND username = $3 AND key IS NOT NULL ON CONFLICT DO NOTHING`
	keepShared = `DELETE FROM ephor_erased WHERE key IN (SELECT key FROM ephor_decisions, unnest(bodies) key
WHERE id BETWEEN $1::bigint AND $2::bigint AND username <> $3 AND key IS NOT NULL)`
	keepNew = `DELETE FROM ephor_erased WHERE key IN (SELECT key FROM ephor_decisions, unnest(bodies) key WHERE id > $1::bigint AND key IS NOT NULL)`

	deleteErased = `WITH part AS (DELETE FROM ephor_erased WHERE key IN (SELECT key FROM ephor_erased LIMIT $1::bigint) RETURNING key)
DELETE FROM ephor_decisions_bodies WHERE key IN (SELECT key FROM part)`
	eraseDecisions = `DELETE FROM ephor_decisions WHERE id BETWEEN $1::bigint AND $2::bigint AND username = $3`
)

// eraseRows is the number of bodies that are deleted while writers wait.
const eraseRows = 2000

// EraseUser implements decision.Eraser. It deletes the bodies before the decisions, so that another erasure finds what is left after a
// failure.
func (s *Postgres) EraseUser(ctx context.Context, name string) (n int, err error) {
	name = plain(name)
	err = s.apart(ctx, func(d deleting) error {
		first, last := int64(0), int64(0)
		err := d.alone(ctx, func(ctx context.Context) (err error) {
			first, last, err = d.ids(ctx)
			return err
		})
		if err == nil {
			err = d.eraseBodies(ctx, name, first, last)
		}
		if err != nil {
			return err
		}
		more, err := d.windows(ctx, eraseDecisions, name, first, last)
		n = int(more)
		return err
	})
	return n, err
}

// eraseBodies deletes the bodies that only decisions of a user have. Decisions after the last one are newer than the erasure.
func (d deleting) eraseBodies(ctx context.Context, name string, first, last int64) error {
	if _, _, err := d.step(ctx, createErased); err != nil {
		return err
	}
	if found, err := d.windows(ctx, findErased, name, first, last); err != nil || found == 0 {
		return err
	}
	if _, err := d.windows(ctx, keepShared, name, first, last); err != nil {
		return err
	}
	for left := true; left; {
		err := d.alone(ctx, func(ctx context.Context) error {
			if _, _, err := d.step(ctx, keepNew, strconv.FormatInt(last, 10)); err != nil {
				return err
			}
			if _, _, err := d.step(ctx, deleteErased, strconv.Itoa(eraseRows)); err != nil {
				return err
			}
			rows, _, err := d.step(ctx, "SELECT 1 FROM ephor_erased LIMIT 1")
			if left = len(rows) > 0; err == nil {
				_, last, err = d.ids(ctx)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ids returns the first and the last id of a decision; zero if there is none.
func (d deleting) ids(ctx context.Context) (first, last int64, err error) {
	rows, _, err := d.step(ctx, "SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM ephor_decisions")
	if err != nil {
		return 0, 0, err
	}
	if first, err = strconv.ParseInt(string(rows[0][0]), 10, 64); err == nil {
		last, err = strconv.ParseInt(string(rows[0][1]), 10, 64)
	}
	return first, last, err
}

// windows runs a statement for each window of the decisions, and returns the number of rows that it changed.
func (d deleting) windows(ctx context.Context, text, name string, first, last int64) (n int64, err error) {
	for from := first; from <= last; from += trimRows {
		to := min(from+trimRows-1, last)
		_, more, err := d.step(ctx, text, strconv.FormatInt(from, 10), strconv.FormatInt(to, 10), name)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// aloneTime bounds the time for which writers wait: they have ten seconds for a batch.
const aloneTime = 6 * time.Second

// alone runs statements in a transaction while no writer of bodies has one: the decisions that it sees are all decisions up to the last id.
func (d deleting) alone(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, aloneTime)
	defer cancel()
	lock := fmt.Sprintf("SET LOCAL lock_timeout = %d; SELECT pg_advisory_xact_lock(%s)", aloneTime.Milliseconds(), bodiesLock)
	return inTransaction(ctx, d.conn, d.limited+lock, func() error { return run(ctx) })
}
