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
type connector struct {
	config *pgconn.Config
	// silence is how long a client may be silent in a transaction: the server ends that of a process that has vanished, so that its locks stop no other one.
	silence time.Duration
}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := pgconn.ConnectConfig(ctx, c.config)
	return session{conn, c.silence}, err
}

// Driver implements driver.Connector. Nothing uses the driver.
func (c *connector) Driver() driver.Driver { return nil }

// session is a connection. It implements driver.Conn and what database/sql looks for beside; its Ping is that of pgconn.
type session struct {
	*pgconn.PgConn
	silence time.Duration
}

func (session) CheckNamedValue(*driver.NamedValue) error { return nil } // asText checks the values

func (session) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("statements are not prepared")
}

func (s session) Begin() (driver.Tx, error) {
	return s.BeginTx(context.Background(), driver.TxOptions{})
}

func (s session) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := s.run(ctx, fmt.Sprintf("BEGIN; SET LOCAL idle_in_transaction_session_timeout = %d", s.silence.Milliseconds()), nil)
	return transaction{ctx, s}, err
}

func (s session) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	done, err := s.run(ctx, text, args)
	return driver.RowsAffected(done.CommandTag.RowsAffected()), err
}

func (s session) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	done, err := s.run(ctx, text, args)
	return &results{done}, err
}

// Close does not wait for a server that has vanished.
func (s session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.PgConn.Close(ctx)
}

// run runs a statement, or several ones without values, and returns the result of the last one.
func (s session) run(ctx context.Context, text string, args []driver.NamedValue) (*pgconn.Result, error) {
	if len(args) == 0 {
		all, err := s.Exec(ctx, text).ReadAll()
		if err != nil || len(all) == 0 {
			return &pgconn.Result{}, err
		}
		return all[len(all)-1], nil
	}
	values := make([][]byte, len(args))
	for i, a := range args {
		var err error
		if values[i], err = asText(a.Value); err != nil {
			return &pgconn.Result{}, err
		}
	}
	done := s.ExecParams(ctx, text, values, nil, nil, nil).Read()
	return done, done.Err
}

// transaction is an open transaction, with the context of its beginning. It implements driver.Tx.
type transaction struct {
	ctx context.Context
	in  session
}

func (t transaction) Commit() error {
	_, err := t.in.run(t.ctx, "COMMIT", nil)
	return err
}

func (t transaction) Rollback() error {
	_, err := t.in.run(t.ctx, "ROLLBACK", nil)
	return err
}

// asText returns a value as PostgreSQL reads it; nil for NULL.
func asText(v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(x), nil
	case []byte:
		return []byte(hexed(x)), nil
	case bool, int, int64, float64:
		return fmt.Append(nil, x), nil
	case []string:
		return []byte(array(x)), nil
	}
	return nil, fmt.Errorf("a value of type %T", v)
}

// array returns texts as an array.
func array(texts []string) string {
	b := []byte("{")
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		if strings.ContainsAny(text, `"\`) {
			text = quoting.Replace(text)
		}
		b = append(append(append(b, '"'), text...), '"')
	}
	return string(append(b, '}'))
}

// quoting escapes a text in quotes, in an array.
var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// hexed returns bytes as PostgreSQL reads and writes them.
func hexed(b []byte) string { return `\x` + hex.EncodeToString(b) }

// results are the rows of a query. They implement driver.Rows.
type results struct{ *pgconn.Result }

func (r *results) Columns() []string { return make([]string, len(r.FieldDescriptions)) } // nothing uses the names

func (r *results) Close() error { return nil }

func (r *results) Next(to []driver.Value) (err error) {
	if len(r.Rows) == 0 {
		return io.EOF
	}
	const bytea = 17 // its type
	for i, text := range r.Rows[0] {
		switch {
		case text == nil:
			to[i] = nil
		case r.FieldDescriptions[i].DataTypeOID == bytea:
			if to[i], err = hex.DecodeString(strings.TrimPrefix(string(text), `\x`)); err != nil {
				return err
			}
		default:
			to[i] = string(text)
		}
	}
	r.Rows = r.Rows[1:]
	return nil
}
