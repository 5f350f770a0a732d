package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// vanishing forwards connections to a server. After vanish, nothing arrives on the connections of before, and neither end
// notices it.
type vanishing struct {
	mu    sync.Mutex
	conns []*silent
}

// silent is a connection on which nothing arrives any more, once it is cut.
type silent struct {
	net.Conn
	cut chan struct{}
}

func (s *silent) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	select {
	case <-s.cut:
		select {} // until the process ends
	default:
		return n, err
	}
}

func (v *vanishing) vanish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.conns {
		close(c.cut)
	}
	v.conns = nil
}

// listen forwards the connections to an address, and returns the address.
func (v *vanishing) listen(t *testing.T, network, address, to string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(network, to)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				from := &silent{way[0], make(chan struct{})}
				v.mu.Lock()
				v.conns = append(v.conns, from)
				v.mu.Unlock()
				go func() {
					_, _ = io.Copy(way[1], from)
					_ = way[1].Close()
				}()
			}
		}
	}()
	return l.Addr().String()
}

// Calls of a store that another call uses return when their time is over.
func TestCallsWaitForALimitedTime(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{})
	if err := s.turn.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	defer s.turn.Release(1)
	p, err := NewPostgres("postgres://ephor@localhost/none", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*link{p.writing, p.reading} {
		if err := l.turn.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		defer l.turn.Release(1)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, s := range []interface {
		decision.Store
		decision.Reader
		decision.Eraser
		decision.Tidier
	}{s, p} {
		_, pageErr := s.Page(over, &decision.Query{}, "", 1)
		_, eraseErr := s.EraseUser(over, "jane")
		for _, err := range []error{pageErr, eraseErr, s.Write(over, some(1, rand.New(rand.NewPCG(1, 2)))), s.Tidy(over)} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%T: %v", s, err)
			}
		}
	}
}

// alone is a store that takes one batch at a time.
type alone struct {
	memory
	at, most atomic.Int32
}

func (a *alone) Write(ctx context.Context, records []decision.Record) error {
	defer a.at.Add(-1)
	a.most.Store(max(a.most.Load(), a.at.Add(1)))
	time.Sleep(time.Second) // in the bubble
	return a.memory.Write(ctx, records)
}

// A receiver calls a store that does not remember batches from one goroutine at a time.
func TestReceiverTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &alone{}
		r := NewReceiver(to, slog.New(slog.DiscardHandler))
		var senders sync.WaitGroup
		for range batchesAtOnce {
			senders.Go(func() {
				body, err := decision.AppendBatch(nil, decision.NewBatchID(), some(1, rand.New(rand.NewPCG(1, 2))))
				if err != nil {
					t.Error(err)
				}
				if status, text := r.receive(httptest.NewRequestWithContext(t.Context(), "POST", "https://x"+batchPath, bytes.NewReader(body))); status != 204 {
					t.Errorf("status %d: %s", status, text)
				}
			})
		}
		senders.Wait()
		if got, _ := to.stored(); len(got) != batchesAtOnce || to.most.Load() != 1 {
			t.Errorf("%d records, %d batches at once", len(got), to.most.Load())
		}
	})
}

// The check of a large file after a crash goes on after the call that began it: calls have a deadline, and each would begin it again.
func TestCheckLongerThanACall(t *testing.T) {
	path, crashed := filepath.Join(t.TempDir(), "d.db"), filepath.Join(t.TempDir(), "d.db")
	records := some(20, rand.New(rand.NewPCG(57, 58)))
	write(t, opened(t, path, Options{}), records[:10])
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(crashed+suffix, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := opened(t, crashed, Options{})
	begun, release := make(chan struct{}, 10), make(chan struct{})
	s.check = func(ctx context.Context, db *sql.DB) error {
		begun <- struct{}{}
		<-release
		return quickCheck(ctx, db)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- s.Write(ctx, records[10:]) }()
	<-begun
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(release)
	write(t, s, records[10:])
	if got := all(t, s, &decision.Query{}, 100); len(got) != len(records) || len(begun) > 0 {
		t.Errorf("%d records, %d more checks", len(got), len(begun))
	}
}

// A full disk loses no stored record: only a file that has its own size makes room for new ones.
func TestDiskFull(t *testing.T) {
	for _, o := range []Options{{}, {MaxBytes: 1 << 30}} {
		s := opened(t, filepath.Join(t.TempDir(), "d.db"), o)
		records := some(5000, rand.New(rand.NewPCG(83, 84)))
		write(t, s, records[:4000])
		limit := func(pages string) {
			t.Helper()
			if _, err := s.write.ExecContext(t.Context(), "PRAGMA max_page_count = "+pages); err != nil {
				t.Fatal(err)
			}
		}
		limit("1") // its current size
		if err := s.Write(t.Context(), records[4000:]); !full(err) {
			t.Errorf("%d: %v", o.MaxBytes, err)
		}
		limit("1000000")
		if got := all(t, s, &decision.Query{}, 1000); len(got) != 4000 {
			t.Errorf("%d: %d of 4000 records are left", o.MaxBytes, len(got))
		}
		write(t, s, records[4000:])
	}
}

// A person is erased in steps, between which records are stored. Data of the person that a new record uses stays, and an erasure that failed is
// completed by the next one.
func TestWritesWhileAUserIsErased(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{})
	random := rand.New(rand.NewPCG(85, 86))
	var records []decision.Record
	for i := range 3 {
		for _, r := range withRequests(some(stepRows, random), random) {
			r.Time = r.Time.Add(time.Duration(i) * 24 * time.Hour)
			records = append(records, r)
		}
	}
	write(t, s, records)
	if _, err := s.write.ExecContext(t.Context(), "CREATE TRIGGER refused BEFORE DELETE ON decision WHEN old.id > "+strconv.FormatInt(records[2*stepRows].Time.UnixMicro(), 10)+" BEGIN SELECT RAISE(ABORT, 'refused'); END"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EraseUser(t.Context(), "user-3"); err == nil {
		t.Fatal("the file refuses deletions, and the user is erased")
	}
	if err := s.Write(t.Context(), records[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.write.ExecContext(t.Context(), "DROP TRIGGER refused"); err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(slices.Clone(records), func(r decision.Record) bool { return r.User == "user-3" })
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	more := 0
	writing.Go(func() { // the texts and bodies of these records are those of erased ones, too
		for batch := range slices.Chunk(records[:stepRows], 50) {
			if ctx.Err() != nil {
				return
			}
			again := slices.Clone(batch)
			for i := range again {
				again[i].User, again[i].Time = "jane", again[i].Time.Add(96*time.Hour)
			}
			if err := s.Write(t.Context(), again); err != nil {
				t.Error(err)
				return
			}
			more += len(again)
		}
	})
	if _, err := s.EraseUser(t.Context(), "user-3"); err != nil {
		t.Error(err)
	}
	stop()
	writing.Wait()
	got := all(t, s, &decision.Query{Requests: true}, 1000)
	if want := len(others) + more; len(got) != want && len(got) != want+1 {
		t.Errorf("%d records are left, want %d", len(got), want)
	}
	lost := 0
	for i := range got {
		switch r := &got[i]; {
		case r.User == "user-3":
			t.Fatal("a record of the user is left")
		case r.Verdict == decision.Refused && r.Message == "":
			lost++
		case r.Request != nil && (r.Request.Object == nil || len(r.Request.Object.Deflated) == 0):
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d records lack a text", lost)
	}
}
