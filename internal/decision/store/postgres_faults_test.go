package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"ephor.invalid/ephor/internal/decision"
)

// run runs statements as the owner of the database, and returns the rows of the last one.
func (d *database) run(text string) [][][]byte {
	d.t.Helper()
	c, err := pgconn.Connect(d.t.Context(), d.Address)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	results, err := c.Exec(d.t.Context(), text).ReadAll()
	if err != nil {
		d.t.Fatal(err)
	}
	if len(results) == 0 {
		return nil
	}
	return results[len(results)-1].Rows
}

// as returns the address for a user without rights, which it creates.
func (d *database) as(name string) string {
	d.t.Helper()
	d.run("CREATE ROLE " + name + " LOGIN")
	return strings.Replace(d.Address, "ephor@", name+"@", 1)
}

// hold stops all deletions of decisions until release is called.
func (d *database) hold() (release func()) {
	d.t.Helper()
	d.run(`CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN OLD; END $$;
CREATE TRIGGER held BEFORE DELETE ON ephor_decisions FOR EACH ROW EXECUTE FUNCTION held()`)
	c, err := pgconn.Connect(d.t.Context(), d.Address)
	if err == nil {
		_, err = c.Exec(d.t.Context(), "SELECT pg_advisory_lock(7)").ReadAll()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = c.Close(context.Background()) })
	d.t.Cleanup(release)
	return release
}

// held waits until a deletion is stopped.
func (d *database) held() {
	d.t.Helper()
	d.run(`SET statement_timeout = '60s'; DO $$ BEGIN
WHILE NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted) LOOP PERFORM pg_sleep(0.01); END LOOP;
END $$`)
}

// soon returns a context for a write while a deletion is stopped.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), writeLimit)
	t.Cleanup(cancel)
	return ctx
}

const writeLimit = 10 * time.Second

// A store that failed works when the reason is gone, on a new connection.
func TestPostgresFreshStart(t *testing.T) {
	d := newDatabase(t)
	records := some(5, rand.New(rand.NewPCG(41, 42)))
	for _, c := range []struct{ name, before, after string }{
		{"may_not_create", "", "GRANT CREATE ON SCHEMA public TO may_not_create"},
		{"on_a_standby", "GRANT CREATE ON SCHEMA public TO on_a_standby; ALTER ROLE on_a_standby SET default_transaction_read_only = on",
			"ALTER ROLE on_a_standby RESET default_transaction_read_only"},
	} {
		address := d.as(c.name)
		d.run("DROP TABLE IF EXISTS ephor_decisions, ephor_decisions_bodies, ephor_decisions_batches, ephor_decisions_version; " + c.before)
		s, err := NewPostgres(address, Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Write(t.Context(), records); err == nil {
			t.Fatalf("%s: stored without tables", c.name)
		}
		d.run(c.after)
		if err := s.Write(t.Context(), records); err != nil {
			t.Errorf("%s: after the reason is gone: %v", c.name, err)
		}
	}

	// A user with the rights for the existing tables needs no others, and a revoked right may come back.
	s, err := NewPostgres(d.as("may_write"), Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(want bool) {
		t.Helper()
		if err := s.Write(t.Context(), records); (err == nil) != want {
			t.Errorf("stored: %v, want %t", err, want)
		}
	}
	write(false)
	d.run("GRANT SELECT, INSERT ON ephor_decisions, ephor_decisions_batches, ephor_decisions_version TO may_write")
	write(true)
	d.run("REVOKE INSERT ON ephor_decisions FROM may_write")
	write(false)
	d.run("GRANT INSERT ON ephor_decisions TO may_write")
	write(true)

	// The server of an open connection becomes a standby, and its address leads to another one.
	if _, err := s.writing.idle[0].ExecContext(t.Context(), "SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	write(true)
	// The tables of a server that takes over may be missing.
	owner := d.open(Options{})
	if err := owner.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	d.run("DROP TABLE ephor_decisions, ephor_decisions_bodies, ephor_decisions_batches, ephor_decisions_version")
	if err := owner.Write(t.Context(), records); err != nil {
		t.Error(err)
	}
}

// A store that is closed during a write stores nothing afterwards, and keeps no connection.
func TestPostgresClosedDuringAWrite(t *testing.T) {
	s := newDatabase(t).open(Options{})
	begun, release, done := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		done <- s.write(t.Context(), func(context.Context, *sql.Conn) error { close(begun); <-release; return nil })
	}()
	<-begun
	if err := s.Close(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Write(t.Context(), some(1, rand.New(rand.NewPCG(1, 2)))); !errors.Is(err, errClosed) || len(s.writing.idle) > 0 {
		t.Errorf("%v, connections %v", err, s.writing.idle)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// through returns an address that leads to the database through v.
func (v *vanishing) through(d *database) string {
	d.t.Helper()
	dir, err := os.MkdirTemp("", "pg") // paths of sockets must be short
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const socket = ".s.PGSQL.5432"
	v.listen(d.t, "unix", filepath.Join(dir, socket), filepath.Join(d.Directory(), socket))
	return strings.Replace(d.Address, d.Directory(), dir, 1)
}

// A server that vanishes does not close its connections. Writes, queries and deletions go on with a new connection, within their time.
func TestPostgresVanishes(t *testing.T) {
	d := newDatabase(t)
	v := &vanishing{}
	s, err := NewPostgres(v.through(d), Options{Now: func() time.Time { return day }, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	records := some(5, rand.New(rand.NewPCG(43, 44)))
	use := func(when string, old int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), queryTimeout)
		defer cancel()
		if err := s.Write(ctx, records); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if page, err := s.Page(ctx, &decision.Query{}, "", 100); err != nil || len(page.Records) != old+len(records) {
			t.Errorf("%s: %d records, %v", when, len(page.Records), err)
		}
		if err := s.Tidy(context.Background()); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	use("before", 0)
	v.vanish()
	use("after", len(records))
}

// Writes do not wait for the deletion of old records, however many there are.
func TestPostgresWritesWhileOldRecordsAreDeleted(t *testing.T) {
	d := newDatabase(t)
	s := d.open(Options{MaxAge: time.Hour})
	records := some(5, rand.New(rand.NewPCG(45, 46)))
	if err := s.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	d.run(fmt.Sprintf(`INSERT INTO ephor_decisions (at, uid, cluster, namespace, username, kind, verdict, policies, record)
SELECT n, n, '', '', '', '', '', '{}', '' FROM generate_series(1, %d) n`, 2*trimRows))
	release := d.hold()
	done := make(chan error, 1)
	go func() { done <- s.Tidy(t.Context()) }()
	d.held()
	if err := s.Write(soon(t), records); err != nil {
		t.Error(err)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if rows := d.run("SELECT count(*) FROM ephor_decisions"); string(rows[0][0]) != fmt.Sprint(2*len(records)) {
		t.Errorf("%s records are left", rows[0][0])
	}
}

// Writes do not wait for the erasure of a user, and an erasure that failed is completed by the next one.
func TestPostgresWritesWhileAUserIsErased(t *testing.T) {
	d := newDatabase(t)
	s := d.open(Options{})
	records := withRequests(some(600, rand.New(rand.NewPCG(47, 48))), rand.New(rand.NewPCG(49, 50)))
	if err := s.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	user, n := "user-3", 0
	for i := range records {
		if records[i].User == user {
			n++
		}
	}
	d.run(`CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
CREATE TRIGGER refused BEFORE DELETE ON ephor_decisions FOR EACH ROW EXECUTE FUNCTION refused()`)
	if _, err := s.EraseUser(t.Context(), user); err == nil {
		t.Fatal("the database refuses deletions, and the user is erased")
	}
	d.run("DROP TRIGGER refused ON ephor_decisions")

	release := d.hold()
	type outcome struct {
		n   int
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		n, err := s.EraseUser(t.Context(), user)
		done <- outcome{n, err}
	}()
	d.held()
	var others []decision.Record // with requests, which other decisions share
	for i := range records {
		if r := records[i]; r.User != user {
			others = append(others, r)
		}
	}
	for _, w := range []*Postgres{s, d.open(Options{})} {
		if err := w.Write(soon(t), others); err != nil {
			t.Error(err)
		}
	}
	release()
	if got := <-done; got.err != nil || got.n != n {
		t.Errorf("%d of %d are erased: %v", got.n, n, got.err)
	}
	if rows := d.run("SELECT count(*) FROM ephor_decisions_bodies WHERE position('of user-3'::bytea in body) > 0 UNION ALL SELECT count(*) FROM ephor_decisions WHERE username = 'user-3'"); string(rows[0][0]) != "0" || string(rows[1][0]) != "0" {
		t.Errorf("%s bodies and %s decisions of the user are left", rows[0][0], rows[1][0])
	}
	for _, r := range all(t, s, &decision.Query{Requests: true}, 100) {
		if r.Request != nil && r.Request.Object != nil && len(r.Request.Object.Deflated) == 0 {
			t.Fatalf("the object of %s is lost", r.UID)
		}
	}
}

// A process that vanished in a transaction stops other processes for a limited time only: the server ends the transaction.
func TestPostgresClientVanishes(t *testing.T) {
	d := newDatabase(t)
	v := &vanishing{}
	gone, err := NewPostgres(v.through(d), Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	gone.server.silence = time.Second
	records := withRequests(some(20, rand.New(rand.NewPCG(91, 92))), rand.New(rand.NewPCG(93, 94)))
	if err := gone.Write(t.Context(), records[:10]); err != nil {
		t.Fatal(err)
	}
	d.run(`CREATE FUNCTION stopped() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END $$;
CREATE TRIGGER stopped BEFORE INSERT ON ephor_decisions FOR EACH ROW EXECUTE FUNCTION stopped()`)
	c, err := pgconn.Connect(t.Context(), d.Address)
	if err == nil {
		_, err = c.Exec(t.Context(), "SELECT pg_advisory_lock(7)").ReadAll()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- gone.Write(ctx, records[10:]) }()
	d.held() // the bodies of the records are in the transaction
	v.vanish()
	_ = c.Close(t.Context())
	other := d.open(Options{})
	if err := other.Write(soon(t), records[10:]); err != nil {
		t.Errorf("another process: %v", err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("stored by a process that vanished")
	}
}

// Some slow searches do not hold up another reader, and there is a limit on the number of queries at once.
func TestPostgresReaders(t *testing.T) {
	d := newDatabase(t)
	s := d.open(Options{})
	if err := s.Write(t.Context(), some(5, rand.New(rand.NewPCG(61, 62)))); err != nil {
		t.Fatal(err)
	}
	slow, stop := context.WithCancel(t.Context())
	var searches sync.WaitGroup
	for range readers - 1 {
		searches.Go(func() {
			_, _ = query(slow, s, func(rows *sql.Rows, one *string) error { return rows.Scan(one) }, "SELECT pg_sleep(60)::text")
		})
	}
	running := func(n int) {
		d.run(fmt.Sprintf("SET statement_timeout = '60s'; DO $$ BEGIN WHILE (SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%%') <> %d LOOP PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$", n))
	}
	running(min(readers-1, 3))
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		page, err := s.Page(ctx, &decision.Query{}, "", 10)
		cancel()
		if err != nil || len(page.Records) != 5 {
			t.Fatalf("%d records, %v", len(page.Records), err)
		}
	}
	for range 2 * readers {
		searches.Go(func() {
			_, _ = query(slow, s, func(rows *sql.Rows, one *string) error { return rows.Scan(one) }, "SELECT pg_sleep(60)::text")
		})
	}
	running(readers)
	if got := d.run("SELECT count(*)::text FROM pg_stat_activity WHERE application_name = 'ephor'"); string(got[0][0]) != fmt.Sprint(readers+1) {
		t.Errorf("%s connections", got[0][0])
	}
	stop()
	searches.Wait()
	if page, err := s.Page(t.Context(), &decision.Query{}, "", 10); err != nil || len(page.Records) != 5 {
		t.Errorf("%d records, %v", len(page.Records), err)
	}
}
