package store

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// connector makes connections to PostgreSQL for database/sql. The driver of pgx (pgx/v5/stdlib), which knows every type of PostgreSQL, would make the
// program 3.9 % (2.8 MB) larger; this one knows the types of the store. A statement is never prepared, so a pooler may be between.
type connector struct{ config *pgconn.Config }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := pgconn.ConnectConfig(ctx, c.config)
	if err != nil {
		return nil, err
	}
	return session{conn}, nil
}

// Driver implements driver.Connector. Nothing uses the driver.
func (c connector) Driver() driver.Driver { return nil }

// session is a connection. Its Ping is that of pgconn.
type session struct{ *pgconn.PgConn }

// CheckNamedValue implements driver.NamedValueChecker: asText checks the values.
func (session) CheckNamedValue(*driver.NamedValue) error { return nil }

// Prepare implements driver.Conn.
func (session) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("statements are not prepared")
}

// Close implements driver.Conn. It does not wait for a server that has vanished.
func (s session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.PgConn.Close(ctx)
}

// Begin implements driver.Conn.
func (s session) Begin() (driver.Tx, error) {
	return s.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements driver.ConnBeginTx.
func (s session) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	return transaction{ctx, s}, s.all(ctx, "BEGIN")
}

// ExecContext implements driver.ExecerContext. A text without values may have several statements.
func (s session) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) == 0 {
		return driver.RowsAffected(0), s.all(ctx, text)
	}
	done, err := s.run(ctx, text, args)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(done.CommandTag.RowsAffected()), nil
}

// QueryContext implements driver.QueryerContext.
func (s session) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	done, err := s.run(ctx, text, args)
	return &results{done}, err
}

func (s session) all(ctx context.Context, text string) error {
	_, err := s.Exec(ctx, text).ReadAll()
	return err
}

func (s session) run(ctx context.Context, text string, args []driver.NamedValue) (*pgconn.Result, error) {
	values := make([][]byte, len(args))
	for i, a := range args {
		var err error
		if values[i], err = asText(a.Value); err != nil {
			return nil, err
		}
	}
	done := s.ExecParams(ctx, text, values, nil, nil, nil).Read()
	return done, done.Err
}

// asText returns a value as PostgreSQL reads it; nil for NULL.
func asText(v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(x), nil
	case []byte:
		return hex.AppendEncode([]byte(`\x`), x), nil
	case bool, int, int64, float64:
		return fmt.Append(nil, x), nil
	case []int64:
		return []byte("{" + list(x) + "}"), nil
	case []string:
		out := []byte("{")
		for _, text := range x {
			out = append(append(append(out, '"'), quoting.Replace(text)...), `",`...)
		}
		return append(out[:max(1, len(out)-1)], '}'), nil
	case [][]byte:
		out := []byte("{")
		for _, b := range x {
			if b == nil {
				out = append(out, "NULL,"...)
			} else {
				out = append(hex.AppendEncode(append(out, `"\\x`...), b), `",`...)
			}
		}
		return append(out[:max(1, len(out)-1)], '}'), nil
	}
	return nil, fmt.Errorf("a value of type %T", v)
}

// quoting escapes a text in quotes, in an array.
var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// transaction is an open transaction, with the context of its beginning.
type transaction struct {
	ctx context.Context
	session
}

// Commit implements driver.Tx.
func (t transaction) Commit() error { return t.all(t.ctx, "COMMIT") }

// Rollback implements driver.Tx.
func (t transaction) Rollback() error { return t.all(t.ctx, "ROLLBACK") }

// results are the rows of a query.
type results struct{ *pgconn.Result }

// Columns implements driver.Rows.
func (r *results) Columns() (out []string) {
	for _, f := range r.FieldDescriptions {
		out = append(out, f.Name)
	}
	return out
}

// Close implements driver.Rows.
func (r *results) Close() error { return nil }

// Next implements driver.Rows.
func (r *results) Next(to []driver.Value) error {
	if len(r.Rows) == 0 {
		return io.EOF
	}
	const bytea = 17 // its type
	for i, text := range r.Rows[0] {
		switch {
		case text == nil:
			to[i] = nil
		case r.FieldDescriptions[i].DataTypeOID == bytea:
			b, err := hex.DecodeString(strings.TrimPrefix(string(text), `\x`))
			if err != nil {
				return err
			}
			to[i] = b
		default:
			to[i] = string(text)
		}
	}
	r.Rows = r.Rows[1:]
	return nil
}
