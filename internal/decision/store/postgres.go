package store

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
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

const (
	// queryTimeout bounds one query, and one step of a deletion.
	queryTimeout = 20 * time.Second
	// tidyTime is the time after which a deletion of old records ends; the next one continues.
	tidyTime = 30 * time.Second
)

// Postgres is a store in a PostgreSQL database, which several processes and clusters may share. Its size is not bounded, only the age of
// records.
type Postgres struct {
	config *pgconn.Config
	o      Options
	reads  bool // the store is read only
	closed atomic.Bool
	// search is the time after which a search for a page goes on in windows, and window their number of records.
	search time.Duration
	window int
	// limited begins transactions: the server ends those of a process that has vanished, so that their locks stop no other one.
	limited string

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
	s := &Postgres{config: c, o: o, limited: limitedTo(queryTimeout), search: queryTimeout / 2, window: pageScan}
	s.writing, s.reading = newLink(s.connect), newLink(s.connect)
	return s, nil
}

// limitedTo returns the statements that end a transaction whose client is silent for a while.
func limitedTo(d time.Duration) string {
	return fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d; ", d.Milliseconds())
}

// connect returns a new connection. If the tables do not exist, it creates them.
func (s *Postgres) connect(ctx context.Context) (*pgconn.PgConn, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	c, err := pgconn.ConnectConfig(ctx, s.config)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	if s.reads {
		return c, nil
	}
	if err := migrate(ctx, c); err != nil {
		hangUp(c)
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return c, nil
}

// migrate changes the tables to the form that this version expects. Several processes may do so at once.
func migrate(ctx context.Context, c *pgconn.PgConn) error {
	run := func(text string) ([][][]byte, error) {
		results, err := c.Exec(ctx, text).ReadAll()
		if err != nil || len(results) == 0 {
			return nil, err
		}
		return results[len(results)-1].Rows, nil
	}
	// A standby, and a user without the right to create tables, can only read them. An error means that they do not exist yet.
	if rows, err := run("SELECT max(version) FROM ephor_decisions_version"); err == nil && string(rows[0][0]) == strconv.Itoa(len(migrations)) {
		return nil
	}
	lock := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d); CREATE TABLE IF NOT EXISTS ephor_decisions_version (version int NOT NULL)", migrationLock)
	return inTransaction(ctx, c, lock, func() error {
		rows, err := run("SELECT coalesce(max(version), 0) FROM ephor_decisions_version")
		if err != nil {
			return err
		}
		version, err := strconv.Atoi(string(rows[0][0]))
		if err != nil {
			return err
		}
		if version > len(migrations) {
			return fmt.Errorf("they have the version %d, and this program knows %d", version, len(migrations))
		}
		for i := version; i < len(migrations); i++ {
			if _, err := run(migrations[i] + fmt.Sprintf("; INSERT INTO ephor_decisions_version VALUES (%d)", i+1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// recordRow is a record with the columns by which it is found.
type recordRow struct {
	At        int64    `json:"at"`
	UID       string   `json:"uid"`
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	User      string   `json:"username"`
	Kind      string   `json:"kind"`
	Verdict   string   `json:"verdict"`
	Policies  []string `json:"policies"`
	Record    string   `json:"record"`
	// Bodies has the keys of the bodies in base64, with an empty text for a missing body; nil without a request.
	Bodies []string `json:"bodies,omitempty"`
}

// plain returns a text that the database accepts: UTF-8 without zero bytes.
func plain(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\ufffd"), "\ufffd")
}

// insertEntries stores a list of entries.
const insertEntries = `INSERT INTO ephor_decisions (at, uid, cluster, namespace, username, kind, verdict, policies, record, bodies)
SELECT (x->>'at')::bigint, x->>'uid', x->>'cluster', x->>'namespace', x->>'username', x->>'kind', x->>'verdict', ARRAY(SELECT jsonb_array_elements_text(x->'policies')), decode(x->>'record', 'base64'),
  CASE WHEN x ? 'bodies' THEN ARRAY(SELECT decode(nullif(key, ''), 'base64') FROM jsonb_array_elements_text(x->'bodies') WITH ORDINALITY t(key, n) ORDER BY n) END
FROM jsonb_array_elements($1::jsonb) x`

// Write implements decision.Store. It stores the records in one transaction.
func (s *Postgres) Write(ctx context.Context, records []decision.Record) error {
	return s.WriteOnce(ctx, decision.NewBatchID(), records)
}

// WriteOnce implements decision.OnceStore. The ID is stored in the transaction of the records, so that a batch whose connection was lost can be
// stored again.
func (s *Postgres) WriteOnce(ctx context.Context, batch decision.BatchID, records []decision.Record) error {
	entries := make([]recordRow, len(records))
	bodies := bodies{}
	for i := range records {
		r := records[i]
		var keys []string
		if r.Request != nil {
			var err error
			if r.Request, keys, err = bodies.add(r.Request, r.Time.UnixMicro()/hour); err != nil {
				return err
			}
		}
		b, err := r.AppendProto(nil)
		if err != nil {
			return err
		}
		policies := []string{}
		for _, x := range r.Rules {
			policies = append(policies, plain(x.Policy))
		}
		entries[i] = recordRow{
			At: r.Time.UnixMicro(), UID: plain(r.UID), Cluster: plain(r.Cluster), Namespace: plain(r.Namespace), User: plain(r.User), Kind: plain(r.Kind), Verdict: plain(string(r.Verdict)),
			Policies: policies, Record: base64.StdEncoding.EncodeToString(b), Bodies: keys,
		}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		first := "SELECT 1"
		if len(bodies) > 0 {
			first = "SELECT pg_advisory_xact_lock_shared(" + bodiesLock + ")"
		}
		return inTransaction(ctx, c, s.limited+first, func() error {
			if stored, err := remember(ctx, c, batch); err != nil || stored {
				return err
			}
			if err := bodies.insert(ctx, c); err != nil {
				return err
			}
			return c.ExecParams(ctx, insertEntries, [][]byte{text}, nil, nil, nil).Read().Err
		})
	})
	if err != nil {
		return fmt.Errorf("store decisions: %w", err)
	}
	return nil
}

// write runs statements on the connection for writing.
func (s *Postgres) write(ctx context.Context, run func(context.Context, *pgconn.PgConn) error) error {
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
	return errors.Join(s.writing.close(ctx), s.reading.close(ctx))
}

// query runs a query, on a separate connection for reading.
func (s *Postgres) query(ctx context.Context, text string, args [][]byte) (rows [][][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err = s.reading.use(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		done := c.ExecParams(ctx, text, args, nil, nil, nil).Read()
		rows = done.Rows
		return done.Err
	})
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	return rows, nil
}

// conditions has the conditions of a query, with their values.
type conditions struct {
	text []string
	args [][]byte
}

// add adds a condition in which $ is the placeholder of the value.
func (c *conditions) add(text, value string) {
	c.args = append(c.args, []byte(plain(value)))
	c.text = append(c.text, strings.ReplaceAll(text, "$", "$"+strconv.Itoa(len(c.args))))
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
		c.add("at >= $::bigint", strconv.FormatInt(q.Since.UnixMicro(), 10))
	}
	if !q.Until.IsZero() {
		c.add("at < $::bigint", strconv.FormatInt(q.Until.UnixMicro(), 10))
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
		c.add("uid = $", q.UID)
	}
	if q.Cluster != "" {
		c.add("cluster = $", q.Cluster)
	}
	c.among("namespace", q.Namespaces)
	c.among("username", q.Users)
	c.among("kind", q.Kinds)
	if len(q.Verdicts) > 0 {
		c.add("verdict = ANY(ARRAY(SELECT jsonb_array_elements_text($::jsonb)))", jsonList(q.Verdicts))
	}
	if len(q.Policies) > 0 {
		if pattern, ok := expression(q.Policies); ok {
			c.add("EXISTS (SELECT 1 FROM unnest(policies) p WHERE p ~ $)", pattern)
		} else {
			c.add("policies && ARRAY(SELECT jsonb_array_elements_text($::jsonb))", jsonList(q.Policies))
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
		c.add("namespace = ANY(ARRAY(SELECT jsonb_array_elements_text($::jsonb)))", jsonList(seen))
	}
	rows, end, windows, err := s.find(ctx, &c, &span, than, order, limit, windows)
	if err != nil {
		return page, err
	}
	full := limit > 0 && len(rows) == limit
	if len(rows) > 0 {
		length, err := strconv.Atoi(string(rows[len(rows)-1][4]))
		if err != nil {
			return page, fmt.Errorf("read decisions: %w", err)
		}
		full = full || length > pageBytes
	}
	var found map[string]*decision.Body
	keys := make([][]string, len(rows))
	if q.Requests {
		for i, row := range rows {
			keys[i] = keysOf(row[3])
		}
		var n int
		if found, n, err = s.bodies(ctx, keys); err != nil {
			return page, err
		}
		rows, full = rows[:n], full || n < len(rows)
	}
	for i, row := range rows {
		b, err := hex.DecodeString(strings.TrimPrefix(string(row[2]), `\x`))
		if err != nil {
			return page, fmt.Errorf("read decisions: %w", err)
		}
		var r decision.Record
		if err := r.MergeProto(b); err != nil {
			return page, fmt.Errorf("read decisions: %w", err)
		}
		if r.Request != nil {
			if !q.Requests {
				r.Request = nil
			} else if r.Request, err = withBodies(r.Request, keys[i], found); err != nil {
				return page, err
			}
		}
		page.Records = append(page.Records, r)
	}
	if full {
		end = string(rows[len(rows)-1][0]) + "." + string(rows[len(rows)-1][1])
	}
	if page.Next = end; end != "" && windows {
		page.Next += inWindows
	}
	return page, nil
}

// inWindows ends the position of a page whose search goes on in windows.
const inWindows = ".w"

// find returns the rows of a page. If the search for them takes too long, it searches only a window of the records that span selects, and returns
// the position of its end; end is empty if nothing is left.
func (s *Postgres) find(ctx context.Context, c, span *conditions, than, order string, limit int, windows bool) (rows [][][]byte, end string, _ bool, err error) {
	// The page ends with the record that exceeds its length.
	rowsOf := func(ctx context.Context, c *conditions) ([][][]byte, error) {
		return s.query(ctx, "SELECT at, id, record, bodies, before + octet_length(record) FROM (SELECT *, sum(octet_length(record)) OVER (ORDER BY "+order+") - octet_length(record) AS before"+
			" FROM (SELECT at, id, record, bodies FROM ephor_decisions"+c.where()+" ORDER BY "+order+" LIMIT "+strconv.Itoa(max(limit, 0))+") AS most) AS page"+
			" WHERE before <= "+strconv.Itoa(pageBytes)+" ORDER BY "+order, c.args)
	}
	if !windows {
		soon, cancel := context.WithTimeout(ctx, s.search)
		defer cancel()
		if rows, err = rowsOf(soon, c); err == nil || soon.Err() == nil || ctx.Err() != nil {
			return rows, "", false, err
		}
	}
	last, err := s.query(ctx, "SELECT at, id FROM ephor_decisions"+span.where()+" ORDER BY "+order+" LIMIT 1 OFFSET "+strconv.Itoa(s.window-1), span.args)
	if err != nil {
		return nil, "", true, err
	}
	if len(last) > 0 {
		at, id := string(last[0][0]), string(last[0][1])
		end = at + "." + id
		c.text = append(c.text, "NOT (at, id) "+than+" ("+at+", "+id+")")
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
	c.add(column+" = ANY(ARRAY(SELECT jsonb_array_elements_text($::jsonb)))", jsonList(patterns))
}

// jsonList returns a list as JSON.
func jsonList[T ~string](texts []T) string {
	out, err := json.Marshal(texts)
	if err != nil {
		return "[]" // texts can always be encoded
	}
	return string(out)
}

// expression returns the regular expression of patterns with wildcards; false if none has any.
func expression(patterns []string) (string, bool) {
	found := false
	var all []string
	for _, p := range patterns {
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
	rows, err := s.query(ctx, `WITH RECURSIVE found AS (
  (SELECT namespace FROM ephor_decisions ORDER BY namespace LIMIT 1)
  UNION ALL
  SELECT (SELECT namespace FROM ephor_decisions WHERE namespace > found.namespace ORDER BY namespace LIMIT 1) FROM found WHERE found.namespace IS NOT NULL
) SELECT namespace FROM found WHERE namespace <> ''`, nil)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = string(row[0])
	}
	return out, nil
}
