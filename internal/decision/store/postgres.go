package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/wildcard"
)

// migrations has the changes of the tables, in order. A published one is never changed.
var migrations = []string{`
CREATE TABLE ephor_decisions (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL, -- microseconds since 1970
  uid text NOT NULL,
  cluster text NOT NULL,
  namespace text NOT NULL,
  username text NOT NULL,
  kind text NOT NULL,
  verdict text NOT NULL,
  policies text[] NOT NULL,
  record bytea NOT NULL -- message Record of decision.proto
);
CREATE INDEX ephor_decisions_at ON ephor_decisions (at, id);
CREATE INDEX ephor_decisions_uid ON ephor_decisions (uid);
CREATE INDEX ephor_decisions_namespace ON ephor_decisions (namespace, at);
CREATE INDEX ephor_decisions_policies ON ephor_decisions USING gin (policies);
`, `
CREATE TABLE ephor_decisions_bodies (
  key bytea PRIMARY KEY, -- 16 bytes of the SHA-256 of body
  body bytea NOT NULL, -- message Body of decision.proto
  last bigint NOT NULL -- the last hour that has a decision with it
);
ALTER TABLE ephor_decisions_bodies ALTER COLUMN body SET STORAGE EXTERNAL; -- it is compressed
CREATE INDEX ephor_decisions_bodies_last ON ephor_decisions_bodies (last);
ALTER TABLE ephor_decisions ADD COLUMN bodies bytea[]; -- keys: of the object, the old one and the options; NULL in place of one that is not there
`, `
CREATE TABLE ephor_decisions_batches (
  id bytea PRIMARY KEY, -- of the sender
  at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ephor_decisions_batches_at ON ephor_decisions_batches (at);
`}

// migrationLock is the number of the lock under which tables are changed.
const migrationLock = 0x6570686f72

// Postgres is a store in a PostgreSQL database, which several processes and clusters may share. Its size is not bounded, only the age of
// records.
type Postgres struct {
	server *connector
	db     *sql.DB
	o      Options
	reads  bool // the store is read only
	closed atomic.Bool
	// search is the time after which a search for a page goes on in windows, and window their number of records.
	search time.Duration
	window int

	writing, reading *link
}

// postgresRow is the row of the store in the table of stores.
var postgresRow = row{
	prefix: "postgres://", form: "postgres://USER@HOST/DATABASE", is: "a database", name: "the database",
	open: func(address string, o Options) (decision.Store, error) { return NewPostgres(address, o) },
	read: func(address string) (Readable, error) { return readPostgres(address) },
}

// readPostgres returns a read-only store, which does not change the tables.
func readPostgres(address string) (*Postgres, error) {
	s, err := NewPostgres(address, Options{})
	if err != nil {
		return nil, err
	}
	s.reads = true
	return s, nil
}

// NewPostgres returns the store at an address: postgres://USER@HOST/DATABASE and its parameters. Other settings come from the usual
// environment variables, such as PGPASSWORD.
func NewPostgres(address string, o Options) (*Postgres, error) {
	c, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil, errors.New("the address of the database cannot be read") // the error might contain a password
	}
	c.ConnectTimeout = sendTimeout
	c.RuntimeParams["application_name"] = "ephor"
	server := &connector{c, queryTimeout}
	s := &Postgres{server: server, db: sql.OpenDB(server), o: o, search: queryTimeout / 2, window: pageScan}
	s.db.SetMaxIdleConns(-1) // links keep connections
	s.writing, s.reading = newLink(1, s.connect), newLink(readers, s.connect)
	return s, nil
}

// readers is the number of queries at once: a slow search does not hold up those of other users.
const readers = 4

// connect returns a new connection. If the tables do not exist, it creates them.
func (s *Postgres) connect(ctx context.Context) (*sql.Conn, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	if s.reads {
		return c, nil
	}
	if err := migrate(ctx, c); err != nil {
		_ = c.Close() // it is not used again
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return c, nil
}

// migrate changes the tables to the form that this version expects. Several processes may do so at once.
func migrate(ctx context.Context, c *sql.Conn) error {
	const current = "SELECT max(version) FROM ephor_decisions_version"
	// A standby, and a user without the right to create tables, can only read them. An error means that they do not exist yet.
	if version, _, err := number(ctx, c, current); err == nil && version == int64(len(migrations)) {
		return nil
	}
	return inTransaction(ctx, c, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d); CREATE TABLE IF NOT EXISTS ephor_decisions_version (version int NOT NULL)", migrationLock)); err != nil {
			return err
		}
		version, _, err := number(ctx, tx, current)
		if err != nil {
			return err
		}
		if version > int64(len(migrations)) {
			return fmt.Errorf("they have the version %d, and this program knows %d", version, len(migrations))
		}
		for i, text := range migrations[version:] {
			if _, err := tx.ExecContext(ctx, text+fmt.Sprintf("; INSERT INTO ephor_decisions_version VALUES (%d)", int(version)+i+1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxName bounds the texts by which records are selected, in bytes: an index has entries of at most 2,704 bytes.
const maxName = 800

// plain returns a text that the database accepts, UTF-8 without zero bytes, or the beginning of one that no index could hold.
func plain(text string) string {
	text = text[:min(len(text), maxName)]
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\ufffd"), "\ufffd")
}

// plainList returns texts that the database accepts.
func plainList[T ~string](texts []T) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = plain(string(text))
	}
	return out
}

// insertRecords stores records whose columns are lists.
const insertRecords = `INSERT INTO ephor_decisions (at, uid, cluster, namespace, username, kind, verdict, policies, record, bodies)
SELECT at, uid, cluster, namespace, username, kind, verdict, policies::text[], decode(record, 'base64'), string_to_array(nullif(bodies, ''), ',', '')::bytea[]
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
  t(at, uid, cluster, namespace, username, kind, verdict, policies, record, bodies)`

// Write implements decision.Store. It stores the records in one transaction.
func (s *Postgres) Write(ctx context.Context, records []decision.Record) error {
	return s.WriteOnce(ctx, decision.NewBatchID(), records)
}

// WriteOnce implements decision.OnceStore. The ID is stored in the transaction of the records, so that a batch whose connection was lost can be
// stored again.
func (s *Postgres) WriteOnce(ctx context.Context, batch decision.BatchID, records []decision.Record) error {
	bodies := bodies{}
	var columns [10][]string
	for i := range records {
		row, err := rowOfRecord(records[i], bodies)
		if err != nil {
			return err
		}
		for k, text := range row {
			columns[k] = append(columns[k], text)
		}
	}
	args := make([]any, len(columns))
	for k, column := range columns {
		args[k] = column
	}
	err := s.write(ctx, func(ctx context.Context, c *sql.Conn) error {
		return inTransaction(ctx, c, func(tx *sql.Tx) error {
			if len(bodies) > 0 {
				if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock_shared("+bodiesLock+")"); err != nil {
					return err
				}
			}
			if stored, err := remember(ctx, tx, batch); err != nil || stored {
				return err
			}
			if err := bodies.insert(ctx, tx); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, insertRecords, args...)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("store decisions: %w", err)
	}
	return nil
}

// rowOfRecord returns the columns of a record for insertRecords, and adds its bodies to those of the batch.
func rowOfRecord(r decision.Record, bodies bodies) (row [10]string, err error) {
	var keys string
	if r.Request != nil {
		if r.Request, keys, err = bodies.add(r.Request, r.Time.UnixMicro()/hour); err != nil {
			return row, err
		}
	}
	text, err := r.AppendProto(nil)
	if err != nil {
		return row, err
	}
	policies := make([]string, len(r.Rules))
	for i, x := range r.Rules {
		policies[i] = plain(x.Policy)
	}
	return [...]string{
		strconv.FormatInt(r.Time.UnixMicro(), 10), plain(r.UID), plain(r.Cluster), plain(r.Namespace), plain(r.User), plain(r.Kind), plain(string(r.Verdict)), array(policies), base64.StdEncoding.EncodeToString(text), keys,
	}, nil
}

// write runs statements on the only connection for writing.
func (s *Postgres) write(ctx context.Context, run func(context.Context, *sql.Conn) error) error {
	if s.reads {
		return errReads
	}
	return s.writing.use(ctx, run)
}

// Close implements decision.Store.
func (s *Postgres) Close() error {
	s.closed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(s.writing.close(ctx), s.reading.close(ctx), s.db.Close())
}

// query returns what scan reads from each row that a query selects, on one of the connections for reading.
func query[T any](ctx context.Context, s *Postgres, scan func(*sql.Rows, *T) error, text string, args ...any) (out []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err = s.reading.use(ctx, func(ctx context.Context, c *sql.Conn) error {
		out = nil
		return each(ctx, c, func(rows *sql.Rows) (bool, error) {
			var one T
			err := scan(rows, &one)
			out = append(out, one)
			return true, err
		}, text, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	return out, nil
}

// conditions are the conditions of a query, with their values.
type conditions struct {
	text []string
	args []any
}

// add adds a condition in which each $ is the placeholder of the next value.
func (c *conditions) add(text string, values ...any) {
	var b strings.Builder
	for _, r := range text {
		if b.WriteRune(r); r == '$' {
			c.args = append(c.args, values[0])
			values = values[1:]
			b.WriteString(strconv.Itoa(len(c.args)))
		}
	}
	c.text = append(c.text, b.String())
}

// where returns the conditions for a statement.
func (c *conditions) where() string {
	if len(c.text) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.text, " AND ")
}

// Page implements decision.Reader.
func (s *Postgres) Page(ctx context.Context, q *decision.Query, after string, limit int) (decision.Page, error) {
	page := decision.Page{Records: []decision.Record{}}
	var c conditions
	than, order := "<", "at DESC, id DESC"
	if q.Oldest {
		than, order = ">", "at, id"
	}
	if !q.Since.IsZero() {
		c.add("at >= $", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		c.add("at < $", q.Until.UnixMicro())
	}
	position, windows := strings.CutSuffix(after, inWindows)
	if after != "" {
		at, id, _ := strings.Cut(position, ".")
		for _, number := range []string{at, id} {
			if _, err := strconv.ParseInt(number, 10, 64); err != nil {
				return page, fmt.Errorf("%w: %q", decision.ErrPosition, after)
			}
		}
		c.text = append(c.text, "(at, id) "+than+" ("+at+", "+id+")") // numbers
	}
	span := c
	if q.UID != "" {
		c.add("uid = $", plain(q.UID))
	}
	if q.Cluster != "" {
		c.add("cluster = $", plain(q.Cluster))
	}
	c.among("namespace", q.Namespaces)
	c.among("username", q.Users)
	c.among("kind", q.Kinds)
	if len(q.Verdicts) > 0 {
		c.add("verdict = ANY($)", plainList(q.Verdicts))
	}
	if len(q.Policies) > 0 {
		if pattern, ok := expression(q.Policies); ok {
			c.add("EXISTS (SELECT 1 FROM unnest(policies) p WHERE p ~ $)", pattern)
		} else {
			c.add("policies && $", plainList(q.Policies))
		}
	}
	if q.Sees != nil {
		all, err := s.Namespaces(ctx)
		if err != nil {
			return page, err
		}
		seen := []string{}
		for _, ns := range append(all, "") {
			if q.Sees(ns) {
				seen = append(seen, ns)
			}
		}
		c.add("namespace = ANY($)", plainList(seen))
	}
	rows, end, windows, err := s.find(ctx, &c, &span, than, order, limit, windows)
	if err != nil {
		return page, err
	}
	full := limit > 0 && len(rows) == limit || len(rows) > 0 && rows[len(rows)-1].length > pageBytes
	var found map[string]*decision.Body
	keys := make([][]string, len(rows))
	if q.Requests {
		for i, row := range rows {
			if row.bodies.Valid {
				keys[i] = strings.Split(row.bodies.String, ",")
			}
		}
		var n int
		if found, n, _, err = readBodies(keys, 0, s.readBodies(ctx)); err != nil {
			return page, err
		}
		rows, full = rows[:n], full || n < len(rows)
	}
	for i, row := range rows {
		var r decision.Record
		if err = r.MergeProto(row.record); err == nil && r.Request != nil {
			if !q.Requests {
				r.Request = nil
			} else {
				r.Request, err = united(r.Request, keys[i], found)
			}
		}
		if err != nil {
			return page, fmt.Errorf("read decisions: %w", err)
		}
		if q.Selects(&r) { // the columns have only the beginning of a long name
			page.Records = append(page.Records, r)
		}
	}
	if full {
		end = rows[len(rows)-1].position()
	}
	if page.Next = end; end != "" && windows {
		page.Next += inWindows
	}
	return page, nil
}

// pageRow is a row of a page.
type pageRow struct {
	at, id int64
	record []byte
	bodies sql.NullString // keys, with commas between them
	length int64          // of the records up to this one, in bytes
}

// position returns the position after the row.
func (r *pageRow) position() string {
	return strconv.FormatInt(r.at, 10) + "." + strconv.FormatInt(r.id, 10)
}

// inWindows ends the position of a page whose search goes on in windows.
const inWindows = ".w"

// find returns the rows of a page. If the search for them takes too long, it searches only a window of the records that span selects, and returns
// the position of its end; end is empty if nothing is left.
func (s *Postgres) find(ctx context.Context, c, span *conditions, than, order string, limit int, windows bool) (rows []pageRow, end string, _ bool, err error) {
	// The page ends with the record that exceeds its length.
	rowsOf := func(ctx context.Context, c *conditions) ([]pageRow, error) {
		return query(ctx, s, func(rows *sql.Rows, x *pageRow) error {
			return rows.Scan(&x.at, &x.id, &x.record, &x.bodies, &x.length)
		},
			"SELECT at, id, record, array_to_string(bodies, ',', ''), (before + octet_length(record))::bigint FROM (SELECT *, sum(octet_length(record)) OVER (ORDER BY "+order+") - octet_length(record) AS before"+
				" FROM (SELECT at, id, record, bodies FROM ephor_decisions"+c.where()+" ORDER BY "+order+" LIMIT "+strconv.Itoa(max(limit, 0))+") AS most) AS page"+
				" WHERE before <= "+strconv.Itoa(pageBytes)+" ORDER BY "+order, c.args...)
	}
	if !windows {
		soon, cancel := context.WithTimeout(ctx, s.search)
		defer cancel()
		if rows, err = rowsOf(soon, c); err == nil || soon.Err() == nil || ctx.Err() != nil {
			return rows, "", false, err
		}
	}
	last, err := query(ctx, s, func(rows *sql.Rows, x *pageRow) error { return rows.Scan(&x.at, &x.id) },
		"SELECT at, id FROM ephor_decisions"+span.where()+" ORDER BY "+order+" LIMIT 1 OFFSET "+strconv.Itoa(s.window-1), span.args...)
	if err != nil {
		return nil, "", true, err
	}
	if len(last) > 0 {
		end = last[0].position()
		c.add("NOT (at, id) "+than+" ($, $)", last[0].at, last[0].id)
	}
	rows, err = rowsOf(ctx, c)
	return rows, end, true, err
}

// among adds the condition that one of the patterns matches a column, if there are patterns.
func (c *conditions) among(column string, patterns []string) {
	if len(patterns) == 0 {
		return
	}
	if pattern, ok := expression(patterns); ok {
		c.add(column+" ~ $", pattern)
		return
	}
	c.add(column+" = ANY($)", plainList(patterns))
}

// expression returns the regular expression of patterns with wildcards; false if none has any.
func expression(patterns []string) (string, bool) {
	found := false
	var all []string
	for _, p := range plainList(patterns) {
		found = found || wildcard.Has(p)
		var b strings.Builder
		for _, r := range p {
			switch {
			case r == '*':
				b.WriteString(".*")
			case r == '?':
				b.WriteByte('.')
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r > unicode.MaxASCII:
				b.WriteRune(r)
			default:
				b.WriteString(`\` + string(r))
			}
		}
		all = append(all, b.String())
	}
	return "^(?:" + strings.Join(all, "|") + ")$", found
}

// Namespaces implements decision.Reader. It reads the index once for each namespace.
func (s *Postgres) Namespaces(ctx context.Context) ([]string, error) {
	return query(ctx, s, func(rows *sql.Rows, name *string) error { return rows.Scan(name) }, `WITH RECURSIVE found AS (
  (SELECT namespace FROM ephor_decisions ORDER BY namespace LIMIT 1)
  UNION ALL
  SELECT (SELECT namespace FROM ephor_decisions WHERE namespace > found.namespace ORDER BY namespace LIMIT 1) FROM found WHERE found.namespace IS NOT NULL
) SELECT namespace FROM found WHERE namespace <> ''`)
}
