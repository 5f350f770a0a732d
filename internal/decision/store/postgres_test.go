package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/devcluster"
)

// database is a PostgreSQL server for this test only.
type database struct {
	*devcluster.Postgres
	t *testing.T
}

// newDatabase starts a server. The test is skipped if Debian's package postgresql is not installed.
func newDatabase(t *testing.T) *database {
	t.Helper()
	d := devcluster.NewPostgres(t)
	if d == nil {
		t.Skip("NOT RUN: it needs Debian's package postgresql (apt-get install postgresql)")
	}
	return &database{d, t}
}

func (d *database) open(o Options) *Postgres {
	d.t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	if o.Now == nil {
		o.Now = func() time.Time { return day }
	}
	s, err := Open(d.Address, o)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = s.Close() })
	return s.(*Postgres)
}

// Several processes create the tables of a database at once, a slow search goes on in windows, and a restart of the server loses no stored record.
func TestPostgres(t *testing.T) {
	d := newDatabase(t)
	records := withRequests(some(3000, rand.New(rand.NewPCG(21, 22))), rand.New(rand.NewPCG(27, 28)))
	stores := []*Postgres{d.open(Options{}), d.open(Options{}), d.open(Options{MaxAge: time.Hour, Now: func() time.Time { return day.Add(time.Hour + 1000*time.Second) }})}
	errs := make(chan error, len(stores))
	for i, s := range stores {
		go func() { errs <- s.Write(t.Context(), records[i*1000:][:1000]) }()
	}
	for range stores {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	// A search that takes too long goes on in windows.
	slow := d.open(Options{})
	slow.search, slow.window = 0, 700
	for _, q := range []decision.Query{{}, {Oldest: true}, {Policies: []string{"stri?t"}, Since: day.Add(20 * time.Minute)}, {Users: []string{"none*"}}, {UID: records[5].UID, Requests: true, Oldest: true}} {
		want, got := all(t, stores[0], &q, 1000), all(t, slow, &q, 100)
		if len(got) != len(want) || len(want) > 0 && (got[0].UID != want[0].UID || got[len(got)-1].UID != want[len(want)-1].UID) {
			t.Errorf("%+v: %d records in windows, want %d", q, len(got), len(want))
		}
	}
	// No text of a query is run as SQL.
	for _, q := range []decision.Query{
		{Users: []string{"'; DROP TABLE ephor_decisions; --", `\`, "(", "a*\x00["}}, {Users: []string{"a\x00", "{", `"`, ","}}, {Policies: []string{"a\xff", `{"\`}, Verdicts: []decision.Verdict{"a\x00"}},
	} {
		if got := all(t, stores[0], &q, 10); len(got) > 0 {
			t.Errorf("%+v: %d records", q, len(got))
		}
	}

	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := stores[0].Write(ctx, records[:1]); err == nil {
		t.Error("a store without a server stores")
	}
	d.Start()
	again := some(10, rand.New(rand.NewPCG(25, 26)))
	for i := range again {
		again[i].User, again[i].Message = "after\x00the restart", "a\x00b"
	}
	if err := stores[0].Write(t.Context(), again[:5]); err != nil {
		t.Fatal(err)
	}
	if err := stores[1].Write(t.Context(), again[5:]); err != nil { // it has a connection from before the restart
		t.Fatal(err)
	}
	// The first query finds the connection from before the restart, and does not fail.
	if got := all(t, stores[0], &decision.Query{}, 1000); len(got) != len(records)+len(again) {
		t.Errorf("%d records", len(got))
	}
	if n, err := stores[0].EraseUser(t.Context(), "after\x00the restart"); err != nil || n != len(again) {
		t.Errorf("%d are erased, %v", n, err)
	}
	if err := stores[2].Tidy(t.Context()); err != nil {
		t.Error(err)
	}
	if got := all(t, stores[0], &decision.Query{}, 1000); len(got) != 2000 {
		t.Errorf("%d records are younger than an hour, want 2000", len(got))
	}
	// The bodies of records that were too old are deleted with the records, to within an hour.
	count := func() int {
		n, _ := strconv.Atoi(string(d.run("SELECT count(*) FROM ephor_decisions_bodies")[0][0]))
		return n
	}
	old := withRequests(some(100, rand.New(rand.NewPCG(29, 30))), rand.New(rand.NewPCG(31, 32)))
	before := count()
	for i := range old {
		old[i].Time = old[i].Time.Add(-3 * time.Hour)
		if q := old[i].Request; q != nil {
			q.Object = bodyOf(fmt.Sprintf("old object %d", i))
		}
	}
	write(t, stores[0], old)
	if err := stores[2].Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(); n > before {
		t.Errorf("%d bodies are left, want %d", n, before)
	}
	if _, err := stores[0].EraseUser(t.Context(), "user-0"); err != nil {
		t.Error(err)
	}
	if err := stores[0].Close(); err != nil {
		t.Log(err)
	}
	if err := stores[0].Write(t.Context(), again); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}

// Errors about addresses do not contain a password.
func TestPostgresAddress(t *testing.T) {
	_, err := Open("postgres://ephor:the-password@host:port-that-is-none/db", Options{})
	if err == nil || strings.Contains(err.Error(), "the-password") {
		t.Errorf("%v", err)
	}
}

// Requests of a person are erased with the person's records.
func TestPostgresErase(t *testing.T) {
	d := newDatabase(t)
	s := d.open(Options{})
	// Texts that are not UTF-8 are stored, found and erased.
	odd := some(1, rand.New(rand.NewPCG(95, 96)))
	odd[0].User, odd[0].Verdict = "jane\xff", "odd\x00"
	write(t, s, odd)
	if got := all(t, s, &decision.Query{Users: []string{"jane\xff"}}, 10); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
	if n, err := s.EraseUser(t.Context(), "jane\xff"); n != 1 || err != nil {
		t.Errorf("%d records are erased, %v", n, err)
	}
	testErase(t, s)
	rows := d.run("SELECT count(*) FROM ephor_decisions_bodies WHERE position('of user-3'::bytea in body) > 0 UNION ALL SELECT count(*) FROM ephor_decisions_bodies")
	if string(rows[0][0]) != "0" || string(rows[1][0]) == "0" {
		t.Errorf("%s", rows)
	}
}
