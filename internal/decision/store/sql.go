package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// What SQLite and PostgreSQL have in common over database/sql.

// querier is a database, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// each calls scan for each row that a query selects, until scan returns false or an error.
func each(ctx context.Context, from querier, scan func(*sql.Rows) (more bool, err error), query string, args ...any) (err error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if more, err := scan(rows); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// column returns the values of the only column that a query selects.
func column[T any](ctx context.Context, from querier, query string, args ...any) (out []T, err error) {
	err = each(ctx, from, func(rows *sql.Rows) (bool, error) {
		var one T
		err := rows.Scan(&one)
		out = append(out, one)
		return true, err
	}, query, args...)
	return out, err
}

// number returns the number that a query selects, and whether there is one.
func number(ctx context.Context, from querier, query string, args ...any) (n int64, ok bool, err error) {
	var found sql.NullInt64
	if err = from.QueryRowContext(ctx, query, args...).Scan(&found); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return found.Int64, found.Valid, err
}

// affected returns the number of rows that a statement changed.
func affected(done sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// inTransaction runs a function in a transaction, which it commits unless the function fails.
func inTransaction(ctx context.Context, in interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}, run func(*sql.Tx) error) error {
	tx, err := in.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	if err := run(tx); err != nil {
		return err
	}
	return tx.Commit()
}

const (
	// queryTimeout bounds one query, and one step of a deletion.
	queryTimeout = 20 * time.Second
	// tidyTime is the time after which a deletion of old records ends; the next one continues.
	tidyTime = 30 * time.Second
)

// forAWhile repeats a step of a deletion while there is more to delete, for tidyTime.
func forAWhile(step func() (more bool, err error)) error {
	for end := time.Now().Add(tidyTime); time.Now().Before(end); {
		if more, err := step(); err != nil || !more {
			return err
		}
	}
	return nil
}
