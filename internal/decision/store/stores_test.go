package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// fullStore is what a store does that can be read.
type fullStore interface {
	decision.OnceStore
	decision.Reader
	decision.Eraser
	decision.Tidier
}

// eachStore runs a test with a new store of each kind that can be read. A kind that it does not know fails.
func eachStore(t *testing.T, test func(t *testing.T, address string)) {
	for _, r := range rows {
		if r.read == nil {
			continue
		}
		t.Run(strings.Trim(r.prefix, ":/"), func(t *testing.T) {
			switch r.prefix {
			case sqliteRow.prefix:
				test(t, r.prefix+filepath.Join(t.TempDir(), "d.db"))
			case postgresRow.prefix:
				test(t, newDatabase(t).Address)
			default:
				t.Fatal("it is not known how to make such a store")
			}
		})
	}
}

// openStore opens the store at an address until the end of the test.
func openStore(t *testing.T, address string, o Options) fullStore {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	if o.Now == nil {
		o.Now = func() time.Time { return day }
	}
	s, err := Open(address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(fullStore)
}

// The life of a store: a batch is stored once, queries find the records that they select, another process reads them, a person is erased, old records are
// deleted, and what is left is there when the store is opened again.
func TestStores(t *testing.T) {
	eachStore(t, func(t *testing.T, address string) {
		random := rand.New(rand.NewPCG(1, 2))
		records := withRequests(some(3000, random), random)
		var later atomic.Int64
		o := Options{MaxAge: time.Hour, Now: func() time.Time { return day.Add(time.Duration(later.Load())) }}
		s := openStore(t, address, o)
		id := decision.NewBatchID()
		for range 2 {
			if err := s.WriteOnce(t.Context(), id, records[:250]); err != nil {
				t.Fatal(err)
			}
		}
		write(t, s, records[250:])

		_, isFile := s.(*SQLite)
		testQueries(t, s, records, random, isFile)
		namespaces, err := s.Namespaces(t.Context())
		if err != nil || strings.Join(namespaces, " ") != "team-0 team-1 team-2 team-3" {
			t.Errorf("%q, %v", namespaces, err)
		}
		for _, after := range []string{"x", "1;2", "1.", "-"} {
			if _, err := s.Page(t.Context(), &decision.Query{}, after, 1); !errors.Is(err, decision.ErrPosition) {
				t.Errorf("the position %s gives %v", after, err)
			}
		}

		reader, err := OpenReader(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := all(t, reader, &decision.Query{}, 1000); len(got) != len(records) {
			t.Errorf("another process reads %d records", len(got))
		}
		if err := reader.(decision.Store).Write(t.Context(), records[:1]); !errors.Is(err, errReads) {
			t.Errorf("%v", err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}

		left := 0
		for i := range records {
			if records[i].User != "user-2" {
				left++
			}
		}
		for _, want := range []int{len(records) - left, 0} {
			if n, err := s.EraseUser(t.Context(), "user-2"); err != nil || n != want {
				t.Errorf("%d records are erased, want %d: %v", n, want, err)
			}
		}
		if got := all(t, s, &decision.Query{}, 1000); len(got) != left {
			t.Errorf("%d records are left, want %d", len(got), left)
		}

		const young = 1000
		later.Store(int64(time.Hour + (3000-young)*time.Second))
		if err := s.Tidy(t.Context()); err != nil {
			t.Error(err)
		}
		var want []decision.Record
		for _, r := range records[3000-young:] {
			if r.User != "user-2" {
				want = append(want, r)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Write(t.Context(), records[:1]); !errors.Is(err, errClosed) {
			t.Errorf("%v", err)
		}
		got := all(t, openStore(t, address, o), &decision.Query{Requests: true, Oldest: true}, 1000)
		if len(got) != len(want) {
			t.Fatalf("%d records are younger than an hour, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i].UID != want[i].UID || !reflect.DeepEqual(got[i].Request, want[i].Request) {
				t.Fatalf("%+v, want %+v", got[i], want[i])
			}
		}
	})
}

// A review whose UID or namespace is longer than any of the API server, as anybody who reaches the webhook may send it, does not keep the others of its batch
// from being stored.
func TestLongNames(t *testing.T) {
	eachStore(t, func(t *testing.T, address string) {
		random := rand.New(rand.NewPCG(91, 92))
		records := some(4, random)
		text := func() string { return fmt.Sprintf("%x", bytesOf(random, 8000)) }
		records[1].UID, records[2].Namespace, records[3].Rules = text(), text(), []decision.Result{{Policy: text(), Status: "pass", Action: "Audit"}}
		s := openStore(t, address, Options{})
		write(t, s, records)
		for i, q := range []decision.Query{{UID: records[0].UID}, {UID: records[1].UID}, {Namespaces: []string{records[2].Namespace}}, {Policies: []string{records[3].Rules[0].Policy}}} {
			if got := all(t, s, &q, 10); len(got) != 1 || got[0].UID != records[i].UID || got[0].Namespace != records[i].Namespace {
				t.Errorf("%d: %d records", i, len(got))
			}
		}
	})
}

// The records of the user with exactly this name are found and erased, also where names are long and only differ at their ends.
func TestEraseLongNames(t *testing.T) {
	eachStore(t, func(t *testing.T, address string) {
		long := strings.Repeat("n", 2000)
		names := []string{long + "-one", long + "-two", long, long[:800], "jane\x00", "jane\ufffd"}
		records := withRequests(some(60, rand.New(rand.NewPCG(93, 94))), rand.New(rand.NewPCG(97, 98)))
		for i := range records {
			records[i].User = names[i%len(names)]
		}
		s := openStore(t, address, Options{})
		write(t, s, records)
		for n, name := range names {
			if got := all(t, s, &decision.Query{Users: []string{name}}, 3); len(got) != 10 {
				t.Errorf("%d records of the user %d are found", len(got), n)
			}
			if erased, err := s.EraseUser(t.Context(), name); err != nil || erased != 10 {
				t.Fatalf("%d records of the user %d are erased, %v", erased, n, err)
			}
			got := all(t, s, &decision.Query{Requests: true}, 100)
			if len(got) != 10*(len(names)-n-1) {
				t.Fatalf("%d records are left without the user %d", len(got), n)
			}
			for _, r := range got {
				if r.User == name {
					t.Fatalf("a record of the user %d is left", n)
				}
				if r.Request != nil && r.Request.Object != nil && len(r.Request.Object.Deflated) == 0 {
					t.Fatal("a record has lost its object")
				}
			}
		}
	})
}
