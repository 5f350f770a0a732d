package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"modernc.org/sqlite"

	"ephor.invalid/ephor/internal/decision"
)

// The tables. A part that many records have in common is stored once, as a term, in the form of decision.proto. The id of a decision is its
// time in microseconds since 1970, or a free number soon after it.
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

// sqliteVersion is the version of the tables. Version 1 has no tables for requests, version 2 has no lookups.
const sqliteVersion = 3

// The classes of terms, by the part of a record that they hold. There are as many terms of texts as different messages.
const (
	classWhat  = 1 // the request and the answer: all fields with few values
	classWho   = 2 // the user and the groups
	classPlace = 3 // the namespace
	classShape = 4 // the rules with their results, without texts and times
	classTexts = 9 // the messages and paths, in the order of the rules
)

// hour is the unit of the column last of a term, in microseconds.
const hour = int64(time.Hour / time.Microsecond)

// The limits of a file.
const (
	// high is the part of the maximum size above which the oldest records are deleted.
	high = 0.95
	// trimRows is the number of records that are deleted at once to make room.
	trimRows = 20_000
	// stepRows is the number of records in one step of a deletion. A batch has fewer.
	stepRows = 4000
	// trimEvery is the interval at which the age of records is checked.
	trimEvery = time.Minute
	// maxTerms bounds the terms that are kept in memory, and maxTermBytes their size in the file.
	maxTerms     = 16 << 10
	maxTermBytes = 16 << 20
	// maxNames bounds the terms of a class that one query selects.
	maxNames = 50_000
	// minPages is the minimum of MaxBytes, in pages of pageSize bytes.
	minPages, pageSize = 256, 4096
)

var (
	errLocked = errors.New("another process has the file open")
	errClosed = errors.New("the store is closed")
	errReads  = errors.New("the store is open for reading")
	errMany   = errors.New("too many names match: select fewer")
)

// SQLite is a store in one file. Only one process can write to it at a time: until that process closes the file, another one gets an error.
type SQLite struct {
	path  string
	o     Options
	reads bool // the store is read only
	// search is the time limit of the search for a page.
	search time.Duration
	// check checks the file that another process did not close.
	check func(context.Context, *sql.DB) error
	life  context.Context // ends when the store is closed
	die   context.CancelFunc

	turn    *semaphore.Weighted // of the fields below
	lock    *os.File
	write   *sql.DB
	file    fs.FileInfo // of write
	closed  bool
	checked bool      // this process has opened the file
	suspect bool      // the open file looked damaged
	looked  time.Time // when the age of records was last checked
	swept   int64     // the hour before which unused terms were deleted
	erasing bool      // a user is being erased: there is the table erased
	// The tables of values that are stored once, and the prepared statements of write.
	termRows, bodyRows interned
	prepared           statements

	// reading guards read, which changes when the file is replaced.
	reading  sync.RWMutex
	read     *sql.DB
	readFile fs.FileInfo                // of read
	version  int                        // of the tables in the file
	parts    map[int64]*decision.Record // terms of the open file by id; ids are never reused
	partsMu  sync.Mutex
	// partsBytes is the size of parts in the file.
	partsBytes int
}

// sqliteRow is the row of the store in the table of stores.
var sqliteRow = row{
	prefix: "sqlite:", form: "sqlite:PATH", is: "a store in a file",
	open: func(address string, o Options) (decision.Store, error) {
		return NewSQLite(strings.TrimPrefix(address, "sqlite:"), o)
	},
	read: func(address string) (Readable, error) { return ReadSQLite(strings.TrimPrefix(address, "sqlite:")) },
}

// NewSQLite returns the store in a file. The first write or query opens the file, since another process may still have it open.
func NewSQLite(path string, o Options) (*SQLite, error) {
	if path == "" {
		return nil, errors.New("sqlite: needs the path of a file")
	}
	if o.MaxBytes > 0 && o.MaxBytes < minPages*pageSize {
		return nil, fmt.Errorf("a store has at least %d bytes", minPages*pageSize)
	}
	life, die := context.WithCancel(context.Background())
	return &SQLite{
		path: path, o: o, search: pageTime, check: quickCheck, life: life, die: die, turn: semaphore.NewWeighted(1), parts: map[int64]*decision.Record{},
		termRows: interned{find: findTerm, add: addTerm, touch: touchTerm, kind: erasedTerm, rows: map[[16]byte]lastUse{}},
		bodyRows: interned{find: findBody, add: addBody, touch: touchBody, kind: erasedBody, rows: map[[16]byte]lastUse{}},
	}, nil
}

// ReadSQLite returns a read-only store for a file that another process may have open.
func ReadSQLite(path string) (*SQLite, error) {
	s, err := NewSQLite(path, Options{})
	if err == nil {
		s.reads = true
		_, err = os.Stat(path)
	}
	return s, err
}

// use waits for the turn, and opens the file if it is not open, or if another process has moved or deleted the open one: no reader would find what
// is stored in it. The check of a large file may take longer than a call has time: it goes on after the call, and later calls wait for its end.
func (s *SQLite) use(ctx context.Context) (func(), error) {
	if err := s.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	release := func() { s.turn.Release(1) }
	if s.write != nil {
		if now, err := os.Stat(s.path); err == nil && os.SameFile(now, s.file) {
			return release, nil
		}
		s.end()
	}
	done := make(chan error, 1)
	go func() { done <- s.opened(s.life) }()
	select {
	case err := <-done:
		if err != nil {
			release()
		}
		return release, err
	case <-ctx.Done():
		go func() {
			<-done // a failure occurs again at the next call
			release()
		}()
		return nil, fmt.Errorf("%s is being opened: %w", s.path, ctx.Err())
	}
}

// change changes the file while no other call does. It sets a damaged file aside. After a failure, the next call opens the file again.
func (s *SQLite) change(ctx context.Context, run func() error) error {
	if s.reads {
		return errReads
	}
	release, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	err = run()
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
		if err = run(); again {
			break
		}
	}
	if broken(err) {
		s.end()
	}
	return err
}

// opened opens the file if it is not open. The caller has the turn.
func (s *SQLite) opened(ctx context.Context) error {
	switch {
	case s.closed:
		return errClosed
	case s.write != nil:
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

// begin opens the databases, checks them, and creates the tables.
func (s *SQLite) begin(ctx context.Context) (err error) {
	_, statErr := os.Stat(s.path + "-wal")
	torn := s.suspect || statErr == nil && !s.checked // the last process did not close it
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	s.file, err = f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	pragmas := []string{"secure_delete(1)", "journal_mode(WAL)", "synchronous(FULL)", "journal_size_limit(16777216)", "cache_size(-8192)"}
	if s.o.MaxBytes > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", s.o.MaxBytes/pageSize))
	}
	if s.write, err = s.connect("_txlock=immediate", pragmas...); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if torn {
		if err := s.check(ctx, s.write); err != nil {
			return err
		}
		s.suspect = false
	}
	before, err := s.versioned(ctx, s.write, 0)
	if err != nil {
		return err
	}
	if err := migrateFile(ctx, s.write, before); err != nil {
		return err
	}
	for i, text := range sqliteStatements {
		if s.prepared[i], err = s.write.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	s.checked = true
	return s.beginReading(ctx)
}

// migrateFile creates the tables, and changes those of an earlier version, in one transaction. In a file of this version it writes nothing: the
// disk may be full.
func migrateFile(ctx context.Context, db *sql.DB, version int) error {
	return inTransaction(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, sqliteTables+sqliteRequests+sqliteBatches); err != nil || version == sqliteVersion {
			return err
		}
		setup := fmt.Sprintf("PRAGMA user_version = %d;", sqliteVersion)
		columns, err := column[string](ctx, tx, "SELECT name FROM pragma_table_info('request')")
		if err != nil {
			return err
		}
		if !slices.Contains(columns, "lookups") { // a file of version 2 can have it: earlier programs did not migrate in a transaction
			setup += columnLookups
		}
		_, err = tx.ExecContext(ctx, setup)
		return err
	})
}

// quickCheck reads the whole file, and returns an error if it is damaged.
func quickCheck(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, verdict)
	}
	return nil
}

// beginReading opens the database for queries if it is not open. The caller has the turn.
func (s *SQLite) beginReading(ctx context.Context) error {
	s.reading.RLock()
	open := s.read != nil
	s.reading.RUnlock()
	if open {
		return nil
	}
	query := ""
	if s.reads {
		query = "mode=ro"
	}
	file, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	read, err := s.connect(query, "query_only(1)", "cache_size(-8192)")
	if err != nil {
		return err
	}
	version, err := s.versioned(ctx, read, 1)
	if err != nil {
		return errors.Join(err, read.Close())
	}
	read.SetMaxOpenConns(2)
	s.reading.Lock()
	s.read, s.readFile, s.version = read, file, version
	s.reading.Unlock()
	return nil
}

// versioned returns the version of the tables. A version below lowest or above sqliteVersion is an error.
func (s *SQLite) versioned(ctx context.Context, db *sql.DB, lowest int) (version int, err error) {
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, err
	}
	if version < lowest || version > sqliteVersion {
		return 0, fmt.Errorf("%s: its tables have the version %d, not %d", s.path, version, sqliteVersion)
	}
	return version, nil
}

// connect opens the file; each connection gets the pragmas.
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

// forget clears the terms and bodies that are kept in memory.
func (s *SQLite) forget() {
	clear(s.termRows.rows)
	clear(s.bodyRows.rows)
}

// endReading closes the database for queries, if it is still this one.
func (s *SQLite) endReading(db *sql.DB) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.read != nil && s.read == db {
		_ = s.read.Close()
		s.read = nil
		s.forgetParts()
	}
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
	s.write, s.erasing = nil, false
	s.forget()
	s.forgetParts()
}

// errDamaged is the error for a file that did not pass its check.
var errDamaged = errors.New("the file is damaged")

// damaged reports whether an error means that the file is not a valid database.
func damaged(err error) bool {
	const corrupt, notADatabase = 11, 26
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()&0xff == corrupt || e.Code()&0xff == notADatabase
	}
	return errors.Is(err, errDamaged)
}

// broken reports whether after an error the file is opened again: its volume may have been away.
func broken(err error) bool {
	const interrupt = 9
	var e *sqlite.Error
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !full(err) && !(errors.As(err, &e) && e.Code()&0xff == interrupt)
}

// damagedSuffix ends the name of a damaged file that was set aside.
const damagedSuffix = ".damaged"

// setAside renames a damaged file to PATH.damaged, replaces an earlier file of that name, and reports it.
func (s *SQLite) setAside(why error) error {
	s.end()
	s.suspect = false
	for _, suffix := range []string{"-shm", "-wal", ""} { // the log of a file must not be there when a new one begins
		err := os.Rename(s.path+suffix, s.path+damagedSuffix+suffix)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(s.path + damagedSuffix + suffix)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set the damaged file aside: %w", err)
		}
	}
	s.o.Log.Error("the store of decisions is damaged: it was set aside, and a new one begins", "file", s.path+damagedSuffix, "error", why)
	if s.o.Damaged != nil {
		s.o.Damaged(s.path+damagedSuffix, why)
	}
	return nil
}

// Close implements decision.Store.
func (s *SQLite) Close() error {
	s.die()
	_ = s.turn.Acquire(context.Background(), 1) // it waits for a write, which has a deadline
	defer s.turn.Release(1)
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
