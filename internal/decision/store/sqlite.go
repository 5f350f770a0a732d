package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/ephor-dev/ephor/internal/decision"
)

// The tables. What many records have in common is stored once, as a term: a part of a record in the form of decision.proto. The id of a
// decision is its time in microseconds since 1970, or the next number that is free.
const sqliteTables = `
CREATE TABLE IF NOT EXISTS term (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  class INTEGER NOT NULL,
  key BLOB NOT NULL UNIQUE, -- 16 bytes of the SHA-256 of class and value
  value BLOB NOT NULL,
  last INTEGER NOT NULL -- the last hour that has a decision with it
);
CREATE INDEX IF NOT EXISTS term_class ON term (class) WHERE class < 9;
CREATE TABLE IF NOT EXISTS shape_policy (
  policy TEXT NOT NULL,
  shape INTEGER NOT NULL,
  PRIMARY KEY (policy, shape)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS decision (
  id INTEGER PRIMARY KEY,
  uid BLOB NOT NULL,
  what INTEGER NOT NULL,
  who INTEGER,
  place INTEGER,
  name TEXT,
  shape INTEGER,
  texts INTEGER,
  took INTEGER NOT NULL,
  times BLOB,
  object BLOB,
  patch BLOB,
  rest BLOB
);
CREATE INDEX IF NOT EXISTS decision_shape ON decision (shape);
CREATE INDEX IF NOT EXISTS decision_uid ON decision (id / 3600000000, substr(uid, 1, 4));
`

// sqliteVersion is that of the tables.
const sqliteVersion = 1

// The classes of terms, by the part of a record that they hold. Those of texts are as many as messages differ.
const (
	classWhat  = 1 // what was asked for and answered: all that few values have
	classWho   = 2 // the user and the groups
	classPlace = 3 // the namespace
	classShape = 4 // the rules with their results, without texts and times
	classTexts = 9 // the messages and paths, in the order of the rules
)

// hour is the unit of the field last, in microseconds.
const hour = int64(time.Hour / time.Microsecond)

// The limits of a file.
const (
	// high is the part of its size from which the oldest records are deleted.
	high = 0.95
	// trimRows are deleted at once.
	trimRows = 20_000
	// trimEvery is how often the age of records is looked at.
	trimEvery = time.Minute
	// maxTerms bounds the terms that are remembered.
	maxTerms = 16 << 10
	// maxNames bounds the terms of a class that one query selects.
	maxNames = 50_000
	// minPages bounds MaxBytes from below, in pages of pageSize bytes.
	minPages, pageSize = 256, 4096
)

var (
	errLocked = errors.New("another process has the file open")
	errClosed = errors.New("the store is closed")
	errReads  = errors.New("the store is open for reading")
	errMany   = errors.New("too many names match: select fewer")
)

// SQLite is a store in one file. One process has it open at a time: another one waits, and is refused until then.
type SQLite struct {
	path  string
	o     Options
	reads bool // and nothing else

	mu     sync.Mutex
	lock   *os.File
	write  *sql.DB
	closed bool
	known  map[[16]byte]term
	looked time.Time // at the age of records
	swept  int64     // the hour before which terms were deleted
	// Prepared statements of write.
	find, add, touch, mark, put *sql.Stmt

	// reading guards read, which is replaced with the file.
	reading sync.RWMutex
	read    *sql.DB
	parts   map[int64]*decision.Record // terms by id: ids are never used again
	partsMu sync.Mutex
}

// term is a row of the table.
type term struct{ id, last int64 }

// NewSQLite returns the store in a file, which is opened with the first write or query, since another process may still have it open.
func NewSQLite(path string, o Options) (*SQLite, error) {
	if path == "" {
		return nil, errors.New("sqlite: needs the path of a file")
	}
	if o.MaxBytes > 0 && o.MaxBytes < minPages*pageSize {
		return nil, fmt.Errorf("a store has at least %d bytes", minPages*pageSize)
	}
	return &SQLite{path: path, o: o, known: map[[16]byte]term{}, parts: map[int64]*decision.Record{}}, nil
}

// ReadSQLite returns a file for reading, which another process may have open.
func ReadSQLite(path string) (*SQLite, error) {
	s, err := NewSQLite(path, Options{})
	if err == nil {
		s.reads = true
		_, err = os.Stat(path)
	}
	return s, err
}

// opened opens the file where it is not open. The store is locked.
func (s *SQLite) opened(ctx context.Context) error {
	switch {
	case s.closed:
		return errClosed
	case s.write != nil, s.reads && s.read != nil:
		return nil
	case s.reads:
		return s.beginReading(ctx)
	}
	if s.lock == nil {
		f, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if err := lockFile(f); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s.path, err), f.Close())
		}
		s.lock = f
	}
	err := s.begin(ctx)
	if damaged(err) {
		if err = s.setAside(err); err == nil {
			err = s.begin(ctx)
		}
	}
	return err
}

// begin opens the databases, checks them, and makes the tables.
func (s *SQLite) begin(ctx context.Context) (err error) {
	_, statErr := os.Stat(s.path + "-wal")
	torn := statErr == nil // the last process did not close it
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	pragmas := []string{"secure_delete(1)", "journal_mode(WAL)", "synchronous(NORMAL)", "journal_size_limit(16777216)", "cache_size(-8192)"}
	if s.o.MaxBytes > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", s.o.MaxBytes/pageSize))
	}
	if s.write, err = s.connect("_txlock=immediate", pragmas...); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if torn {
		var verdict string
		if err := s.write.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			return fmt.Errorf("%w: %s", errDamaged, verdict)
		}
	}
	if err := s.versioned(ctx, s.write, 0); err != nil {
		return err
	}
	setup := sqliteTables + fmt.Sprintf("PRAGMA user_version = %d;", sqliteVersion)
	if _, err := s.write.ExecContext(ctx, setup); err != nil {
		return err
	}
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&s.find, "SELECT id, last FROM term WHERE key = ?"},
		{&s.add, "INSERT INTO term (class, key, value, last) VALUES (?, ?, ?, ?)"},
		{&s.touch, "UPDATE term SET last = ? WHERE id = ?"},
		{&s.mark, "INSERT OR IGNORE INTO shape_policy (policy, shape) VALUES (?, ?)"},
		{&s.put, "INSERT OR IGNORE INTO decision (id, uid, what, who, place, name, shape, texts, took, times, object, patch, rest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
	} {
		if *p.to, err = s.write.PrepareContext(ctx, p.sql); err != nil {
			return err
		}
	}
	return s.beginReading(ctx)
}

// beginReading opens the database for queries.
func (s *SQLite) beginReading(ctx context.Context) error {
	query := ""
	if s.reads {
		query = "mode=ro"
	}
	read, err := s.connect(query, "query_only(1)", "cache_size(-8192)")
	if err == nil {
		err = s.versioned(ctx, read, sqliteVersion)
	}
	if err != nil {
		return err
	}
	read.SetMaxOpenConns(2)
	s.reading.Lock()
	s.read = read
	s.reading.Unlock()
	return nil
}

// versioned returns an error for tables of another version than those from lowest to this one.
func (s *SQLite) versioned(ctx context.Context, db *sql.DB, lowest int) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version < lowest || version > sqliteVersion {
		return fmt.Errorf("%s: its tables have the version %d, not %d", s.path, version, sqliteVersion)
	}
	return nil
}

// connect opens the file with pragmas for each connection.
func (s *SQLite) connect(query string, pragmas ...string) (*sql.DB, error) {
	v, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	for _, p := range append(pragmas, "busy_timeout(5000)") {
		v.Add("_pragma", p)
	}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: s.path}).EscapedPath(), RawQuery: v.Encode()}).String())
}

// end closes the databases.
func (s *SQLite) end() {
	s.reading.Lock()
	if s.read != nil {
		_ = s.read.Close()
	}
	s.read = nil
	s.reading.Unlock()
	if s.write != nil {
		_ = s.write.Close()
	}
	s.write = nil
	clear(s.known)
	s.partsMu.Lock()
	clear(s.parts)
	s.partsMu.Unlock()
}

// errDamaged is the error of a file that did not pass its check.
var errDamaged = errors.New("the file is damaged")

// damaged reports whether an error says that the file is no database any more.
func damaged(err error) bool {
	const corrupt, notADatabase = 11, 26
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()&0xff == corrupt || e.Code()&0xff == notADatabase
	}
	return errors.Is(err, errDamaged)
}

// setAside renames a damaged file to PATH.damaged, in place of the last one of that name, and reports it.
func (s *SQLite) setAside(why error) error {
	s.end()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err := os.Rename(s.path+suffix, s.path+".damaged"+suffix)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(s.path + ".damaged" + suffix)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set the damaged file aside: %w", err)
		}
	}
	s.o.Log.Error("the store of decisions is damaged: it was set aside, and a new one begins", "file", s.path+".damaged", "error", why)
	if s.o.Damaged != nil {
		s.o.Damaged(s.path+".damaged", why)
	}
	return nil
}

// Write implements decision.Store. The records are stored in one transaction.
func (s *SQLite) Write(ctx context.Context, records []decision.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads {
		return errReads
	}
	if err := s.opened(ctx); err != nil {
		return err
	}
	err := s.insert(ctx, records)
	switch {
	case damaged(err):
		if err := s.setAside(err); err != nil {
			return err
		}
		if err := s.opened(ctx); err != nil {
			return err
		}
		err = s.insert(ctx, records)
	case full(err):
		if err := s.trim(ctx, trimRows); err != nil {
			return err
		}
		err = s.insert(ctx, records)
	}
	if err != nil {
		return err
	}
	if err := s.bound(ctx); err != nil {
		s.o.Log.Error("old decisions were not deleted", "error", err)
	}
	return nil
}

// full reports whether the file has reached its size.
func full(err error) bool {
	const full = 13
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == full
}

// insert stores records.
func (s *SQLite) insert(ctx context.Context, records []decision.Record) (err error) {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the error says why
			clear(s.known)
		}
	}()
	w := inserting{store: s, find: tx.StmtContext(ctx, s.find), add: tx.StmtContext(ctx, s.add), touch: tx.StmtContext(ctx, s.touch), mark: tx.StmtContext(ctx, s.mark), put: tx.StmtContext(ctx, s.put)}
	quick := context.WithoutCancel(ctx) // each statement that can be cancelled costs a goroutine
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
	store                       *SQLite
	find, add, touch, mark, put *sql.Stmt
	text                        []byte
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
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
		id += 1 + rand.Int64N(1<<min(attempt, 20)) // the number is taken: one soon after it is free
	}
}

// orNull is nil for what is empty.
func orNull[T string | []byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return v
}

// shape returns the term of the rules, and notes which policies they have.
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

// look returns the id of a part of a record, which is added if it is new; nil for an empty one.
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
	return t.id, added, nil
}

// Tidy deletes what is too old, or too much.
func (s *SQLite) Tidy(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.write == nil {
		return nil // it is not open yet
	}
	return s.bound(ctx)
}

// bound deletes some of the oldest records where there are too many, or they are too old. One call deletes more than one batch adds.
func (s *SQLite) bound(ctx context.Context) error {
	if now := s.o.Now(); s.o.MaxAge > 0 && now.Sub(s.looked) >= trimEvery {
		n, err := s.before(ctx, now.Add(-s.o.MaxAge).UnixMicro())
		if err != nil {
			return err
		}
		if n < trimRows {
			s.looked = now
		}
	}
	if s.o.MaxBytes == 0 {
		return nil
	}
	used, err := s.used(ctx)
	if err != nil || float64(used) <= high*float64(s.o.MaxBytes) {
		return err
	}
	return s.trim(ctx, trimRows)
}

// used returns the bytes of the pages that hold something.
func (s *SQLite) used(ctx context.Context) (int64, error) {
	var pages, free int64
	err := s.write.QueryRowContext(ctx, "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&pages, &free)
	return (pages - free) * pageSize, err
}

// trim deletes the oldest n records; where there are fewer, half of them.
func (s *SQLite) trim(ctx context.Context, n int) error {
	var id sql.NullInt64
	err := s.write.QueryRowContext(ctx, "SELECT id FROM decision ORDER BY id LIMIT 1 OFFSET ?", n).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.write.QueryRowContext(ctx, "SELECT id FROM decision ORDER BY id LIMIT 1 OFFSET (SELECT count(*) / 2 FROM decision)").Scan(&id)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.before(ctx, id.Int64)
	return err
}

// before deletes the oldest records before an id, at most trimRows, and the terms that no record has any more.
func (s *SQLite) before(ctx context.Context, id int64) (int64, error) {
	done, err := s.write.ExecContext(ctx, "DELETE FROM decision WHERE id IN (SELECT id FROM decision WHERE id < ? ORDER BY id LIMIT ?)", id, trimRows)
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	if err != nil || n == 0 {
		return 0, err
	}
	var first sql.NullInt64
	if err := s.write.QueryRowContext(ctx, "SELECT min(id) FROM decision").Scan(&first); err != nil {
		return 0, err
	}
	at := int64(math.MaxInt64)
	if first.Valid {
		at = first.Int64 / hour
	}
	if at <= s.swept {
		return n, nil
	}
	clear(s.known)
	for _, text := range []string{
		"DELETE FROM shape_policy WHERE shape IN (SELECT id FROM term WHERE class = 4 AND class < 9 AND last < ?)",
		"DELETE FROM term WHERE last < ?",
	} {
		if _, err := s.write.ExecContext(ctx, text, at); err != nil {
			return 0, err
		}
	}
	if first.Valid {
		s.swept = at
	}
	return n, nil
}

// EraseUser implements decision.Eraser. What is erased is overwritten in the file.
func (s *SQLite) EraseUser(ctx context.Context, name string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads {
		return 0, errReads
	}
	if err := s.opened(ctx); err != nil {
		return 0, err
	}
	terms, err := s.terms(ctx, s.write, classWho, func(r *decision.Record) bool { return r.User == name })
	if err != nil || len(terms) == 0 {
		return 0, err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	// Messages and names of objects may quote the person: terms that only these records have go with them.
	if _, err := tx.ExecContext(ctx, "CREATE TEMP TABLE erased AS SELECT DISTINCT texts FROM decision WHERE texts IS NOT NULL AND who IN ("+list(terms)+")"); err != nil {
		return 0, err
	}
	done, err := tx.ExecContext(ctx, "DELETE FROM decision WHERE who IN ("+list(terms)+")")
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM term WHERE id IN ("+list(terms)+") OR id IN (SELECT texts FROM erased WHERE texts NOT IN (SELECT texts FROM decision WHERE texts IS NOT NULL)); DROP TABLE erased"); err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	clear(s.known)
	s.partsMu.Lock()
	clear(s.parts)
	s.partsMu.Unlock()
	// Until then the write-ahead log has what was erased.
	_, err = s.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return int(n), err
}

// list is the ids for SQL.
func list(ids []int64) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
}

// Close implements decision.Store.
func (s *SQLite) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.end()
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// terms returns the ids of the terms of a class that take accepts, in order.
func (s *SQLite) terms(ctx context.Context, from querier, class int, take func(*decision.Record) bool) (ids []int64, err error) {
	rows, err := from.QueryContext(ctx, "SELECT id, value FROM term WHERE class = ? AND class < 9 ORDER BY id", class)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var value sql.RawBytes
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id, &value); err != nil {
			return nil, err
		}
		r := s.remembered(id)
		if r == nil {
			r = &decision.Record{}
			if err := r.MergeProto(value); err != nil {
				return nil, err
			}
			s.remember(id, r)
		}
		if take(r) {
			if ids = append(ids, id); len(ids) > maxNames {
				return nil, errMany
			}
		}
	}
	return ids, rows.Err()
}

func (s *SQLite) remembered(id int64) *decision.Record {
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	return s.parts[id]
}

func (s *SQLite) remember(id int64, r *decision.Record) {
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	if len(s.parts) >= maxTerms {
		clear(s.parts)
	}
	s.parts[id] = r
}
