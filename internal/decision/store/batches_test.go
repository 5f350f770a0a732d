package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// killed is a store whose process is killed after it stores a batch and before it answers, a number of times. Each time another process
// replaces it.
type killed struct {
	decision.OnceStore
	restart func() decision.OnceStore
	times   int
}

func (k *killed) WriteOnce(ctx context.Context, id decision.BatchID, records []decision.Record) error {
	if err := k.OnceStore.WriteOnce(ctx, id, records); err != nil || k.times == 0 {
		return err
	}
	k.times--
	k.OnceStore = k.restart()
	return errors.New("killed")
}

// testKilled sends batches to a store that is killed before it answers: each record is stored once.
func testKilled(t *testing.T, open func() decision.OnceStore) {
	t.Helper()
	to := &killed{OnceStore: open(), restart: open, times: 3}
	a := newAuthority(t)
	_, connect := channel(t, to, a)
	s := connect(&tls.Config{RootCAs: a.pool(), ServerName: "server", Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageClientAuth)}})
	records := withRequests(some(1500, rand.New(rand.NewPCG(41, 42))), rand.New(rand.NewPCG(43, 44)))
	if err := s.Write(t.Context(), records); err != nil { // two batches
		t.Fatal(err)
	}
	if to.times != 0 {
		t.Fatalf("the store was not killed %d times: the test proves nothing", to.times)
	}
	if got := all(t, to.OnceStore.(decision.Reader), &decision.Query{}, 1000); len(got) != len(records) {
		t.Errorf("%d records are stored, want %d", len(got), len(records))
	}
	// The same records in a separate batch are stored again.
	if err := to.Write(t.Context(), records[:10]); err != nil {
		t.Fatal(err)
	}
	if got := all(t, to.OnceStore.(decision.Reader), &decision.Query{}, 1000); len(got) != len(records)+10 {
		t.Errorf("%d records are stored, want %d", len(got), len(records)+10)
	}
}

func TestBatchOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, address string) {
		var last fullStore
		testKilled(t, func() decision.OnceStore {
			if last != nil {
				_ = last.Close()
			}
			last = openStore(t, address, Options{})
			return last
		})
	})
}

// Two processes store one batch at the same time, and a database remembers a bounded number of batches, for a bounded time.
func TestPostgresBatches(t *testing.T) {
	d := newDatabase(t)
	one, two, id := d.open(Options{}), d.open(Options{}), decision.NewBatchID()
	before := len(all(t, one, &decision.Query{}, 1000))
	var wg sync.WaitGroup
	for _, s := range []*Postgres{one, two} {
		wg.Go(func() {
			if err := s.WriteOnce(t.Context(), id, withRequests(some(300, rand.New(rand.NewPCG(45, 46))), rand.New(rand.NewPCG(47, 48)))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(all(t, one, &decision.Query{}, 1000)) - before; n != 300 {
		t.Errorf("%d records are stored, want 300", n)
	}

	count := func() string { return string(d.run("SELECT count(*) FROM ephor_decisions_batches")[0][0]) }
	remembered := count()
	d.run("INSERT INTO ephor_decisions_batches SELECT decode(md5(n::text), 'hex'), now() - interval '11 minutes' FROM generate_series(1, 5) n")
	if err := one.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != remembered {
		t.Errorf("%s batches are remembered, want the %s of the last minutes", n, remembered)
	}
	d.run("INSERT INTO ephor_decisions_batches SELECT decode(md5(n::text), 'hex'), now() - n * interval '1 millisecond' FROM generate_series(1, 70000) n")
	if err := one.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != "65536" {
		t.Errorf("%s batches are remembered, want 65536", n)
	}
}

// A file remembers a bounded number of batches, for a bounded time.
func TestBatchBounds(t *testing.T) {
	now := day
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{Now: func() time.Time { return now }})
	random := rand.New(rand.NewPCG(49, 50))
	store := func(id decision.BatchID, want int) {
		t.Helper()
		if err := s.WriteOnce(t.Context(), id, some(1, random)); err != nil {
			t.Fatal(err)
		}
		var stored, batches int
		if err := s.write.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM decision), (SELECT count(*) FROM batch)").Scan(&stored, &batches); err != nil {
			t.Fatal(err)
		}
		if stored != want || batches > maxBatches {
			t.Errorf("%d records are stored, want %d; %d batches are remembered", stored, want, batches)
		}
	}
	first, second := decision.NewBatchID(), decision.NewBatchID()
	store(first, 1)
	now = now.Add(batchAge - time.Second)
	store(second, 2)
	store(first, 2)
	now = now.Add(2 * time.Second)
	store(decision.NewBatchID(), 3)
	store(second, 3)
	store(first, 4) // its ID is too old to be remembered
	if _, err := s.write.ExecContext(t.Context(), "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO batch (id, at) SELECT randomblob(16), ? FROM n", maxBatches-3, now.Unix()); err != nil {
		t.Fatal(err)
	}
	store(first, 4)
	store(decision.NewBatchID(), 5)
	store(decision.NewBatchID(), 6)
	store(second, 7) // there are too many later batches
}
