package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// day is the time of the first records in the tests.
var day = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// some returns n records of a cluster, with a few refusals. Users, namespaces and policies alternate.
func some(n int, random *rand.Rand) []decision.Record {
	out := make([]decision.Record, n)
	for i := range out {
		r := decision.Record{
			Schema: decision.Schema, Time: day.Add(time.Duration(i) * time.Second), Duration: time.Duration(random.IntN(1e6)) * time.Microsecond,
			UID: uuidText(bytesOf(random, 16)), Webhook: "ValidatingWebhookConfiguration", User: fmt.Sprintf("user-%d", random.IntN(5)), Groups: []string{"system:authenticated"},
			Operation: "CREATE", Version: "v1", Kind: []string{"Pod", "ConfigMap", "Namespace"}[random.IntN(3)], Name: fmt.Sprintf("web-%d", i),
			Verdict: decision.Passed, Allowed: true, Share: 0.01, Policies: strings.Repeat("0a", 16), Object: fmt.Sprintf("%x", bytesOf(random, 16)),
		}
		if r.Kind != "Namespace" {
			r.Namespace = fmt.Sprintf("team-%d", random.IntN(4))
		}
		for p := range 4 {
			if random.IntN(3) == 0 {
				continue
			}
			r.Rules = append(r.Rules, decision.Result{Policy: fmt.Sprintf("policy-%d", p), Rule: "check", Status: "pass", Action: "Enforce", Duration: long(byte(random.IntN(90)))})
		}
		if random.IntN(10) == 0 {
			r.Verdict, r.Allowed, r.Share, r.Message = decision.Refused, false, 1, "resource "+r.Kind+"/"+r.Namespace+"/"+r.Name+" was blocked"
			r.Patch = strings.Repeat("0b", 16)
			r.Rules = append(r.Rules, decision.Result{Policy: "strict", Rule: "team", Status: "fail", Action: "Enforce", Message: r.Name + " has no team", Path: "/metadata/labels", Exceptions: []string{"a/b"}})
		}
		out[i] = r
	}
	return out
}

func bytesOf(random *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return out
}

func opened(t testing.TB, path string, o Options) *SQLite {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	if o.Now == nil {
		o.Now = func() time.Time { return day }
	}
	s, err := NewSQLite(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func write(t testing.TB, s decision.Store, records []decision.Record) {
	t.Helper()
	for batch := range slices.Chunk(records, 256) {
		if err := s.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

// all reads all pages.
func all(t testing.TB, s decision.Reader, q *decision.Query, limit int) (out []decision.Record) {
	t.Helper()
	for after := ""; ; {
		page, err := s.Page(t.Context(), q, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) > limit {
			t.Fatalf("a page has %d records", len(page.Records))
		}
		out = append(out, page.Records...)
		if after = page.Next; after == "" {
			return out
		}
	}
}

// The search for a review goes on where the last page ended, in both orders, and finds all records of the review: also those in the next hour,
// and those that a page of limited length leaves out.
func TestSearchesWithoutTime(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	records := some(90, random)
	for i := range records {
		records[i].Time = day.Add(time.Duration(i) * 20 * time.Minute)
		if i%3 == 0 && i > 0 {
			records[i].UID = records[i-1].UID // in the next hour
		}
	}
	for range 3 {
		again := records[2]
		again.Time = again.Time.Add(-time.Second)
		again.Rules = nil
		records = slices.Insert(records, 2, again)
	}
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{})
	write(t, s, records)
	s.search = 0
	for i := range records {
		for _, policies := range [][]string{nil, {"policy-*"}} {
			for _, oldest := range []bool{false, true} {
				q := &decision.Query{UID: records[i].UID, Policies: policies, Oldest: oldest}
				want := 0
				for k := range records {
					if q.Selects(&records[k]) {
						want++
					}
				}
				got := all(t, s, q, 2)
				for k := range got[min(1, len(got)):] {
					if got[k].Time.After(got[k+1].Time) == oldest {
						t.Errorf("record %d, oldest %t: %s comes before %s", i, oldest, got[k].Time, got[k+1].Time)
					}
				}
				if len(got) != want {
					t.Fatalf("record %d, policies %q, oldest %t: %d records, want %d", i, policies, oldest, len(got), want)
				}
			}
		}
	}
}

// testQueries compares the results of a reader with the records: every query finds the records that it selects, the newest or the oldest first, with or without
// requests, in pages of any length. Each record is equal to the written one.
func testQueries(t *testing.T, s decision.Reader, records []decision.Record, random *rand.Rand, brief bool) {
	t.Helper()
	pick := func(texts ...string) []string {
		if i := random.IntN(len(texts) + 3); i < len(texts) {
			return strings.Split(texts[i], ",")
		}
		return nil
	}
	for n := range 120 {
		q := &decision.Query{
			Policies: pick("policy-1", "strict", "policy-*", "none", "policy-0,strict"), Namespaces: pick("team-1", "team-*", "*", "none"),
			Users: pick("user-1", "user-?", "*", "none"), Kinds: pick("Pod", "*Map", "none"),
		}
		for _, v := range pick("refused", "passed", "erred", "refused,passed") {
			q.Verdicts = append(q.Verdicts, decision.Verdict(v))
		}
		if random.IntN(2) == 0 {
			q.Since = day.Add(time.Duration(random.IntN(3000)) * time.Second)
		}
		if random.IntN(2) == 0 {
			q.Until = day.Add(time.Duration(random.IntN(3000)) * time.Second)
		}
		if random.IntN(3) == 0 {
			seen := fmt.Sprintf("team-%d", random.IntN(5))
			cluster := random.IntN(2) == 0
			q.Sees = func(ns string) bool { return ns == seen || cluster && ns == "" }
		}
		if random.IntN(8) == 0 {
			q.UID = records[random.IntN(len(records))].UID
		}
		q.Requests, q.Oldest = random.IntN(2) == 0, random.IntN(3) == 0
		var want []decision.Record
		for i := range records {
			if q.Selects(&records[i]) {
				r := records[i]
				if !q.Requests {
					r.Request = nil
				}
				want = append(want, r)
			}
		}
		if !q.Oldest {
			slices.Reverse(want)
		}
		got := all(t, s, q, []int{1000, 100, 7}[n%3])
		if len(got) != len(want) {
			t.Fatalf("%+v: %d records, want %d", q, len(got), len(want))
		}
		for i := range got {
			if w := want[i]; !same(&got[i], &w, brief) {
				t.Fatalf("%+v\n%+v", got[i], w)
			}
		}
	}
}

// same reports whether two records are equal. If short is set, durations of rules may differ by 4 %.
func same(a, b *decision.Record, short bool) bool {
	x, y := *a, *b
	x.Rules, y.Rules = slices.Clone(a.Rules), slices.Clone(b.Rules)
	for i := range x.Rules {
		if i < len(y.Rules) && short && brief(x.Rules[i].Duration) == brief(y.Rules[i].Duration) {
			y.Rules[i].Duration = x.Rules[i].Duration
		}
	}
	return reflect.DeepEqual(x, y)
}

// The limits of size and age apply to the file: the oldest records are deleted first, and no data of them is left.
func TestBoundsOfFiles(t *testing.T) {
	const most = 1 << 20
	path := filepath.Join(t.TempDir(), "d.db")
	now := day
	var mu sync.Mutex
	s := opened(t, path, Options{MaxBytes: most, MaxAge: 20 * time.Hour, Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	records := some(40_000, rand.New(rand.NewPCG(3, 4)))
	for i := range records {
		records[i].User = fmt.Sprintf("person-%d", i/1000)
	}
	for batch := range slices.Chunk(records, 500) {
		mu.Lock()
		now = batch[len(batch)-1].Time
		mu.Unlock()
		if err := s.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > most {
			t.Fatalf("%d bytes, %v", info.Size(), err)
		}
	}
	got := all(t, s, &decision.Query{}, 1000)
	if n := len(got); n < 2500 || got[0].UID != records[len(records)-1].UID || got[n-1].UID != records[len(records)-n].UID {
		t.Fatalf("%d records from %v to %v", len(got), got[len(got)-1].Time, got[0].Time)
	}
	// Ten hours later, only records younger than 20 hours are left.
	mu.Lock()
	now = now.Add(19 * time.Hour)
	mu.Unlock()
	for range 4 {
		if err := s.Write(t.Context(), []decision.Record{{Schema: decision.Schema, Time: now, UID: "last"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range all(t, s, &decision.Query{}, 1000) {
		if r.Time.Before(now.Add(-20 * time.Hour)) {
			t.Fatalf("a record of %v is left at %v", r.Time, now)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte("person-10")) {
		t.Errorf("a user of deleted records is still in the file, %v", err)
	}
}

// Stored batches are complete after the process was killed while it wrote.
func TestKilledWriter(t *testing.T) {
	if path := os.Getenv("EPHOR_TEST_WRITE"); path != "" {
		s := opened(t, path, Options{})
		random := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
		for n := 0; ; n++ {
			records := some(100, random)
			for i := range records {
				records[i].Name = fmt.Sprintf("batch-%d", n)
			}
			if err := s.Write(t.Context(), records); err != nil {
				t.Fatal(err)
			}
			fmt.Println("stored", n)
		}
	}
	path := filepath.Join(t.TempDir(), "d.db")
	for round := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "EPHOR_TEST_WRITE="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 400*(round+1)) // the output of a few batches
		for n := 0; n < len(said); {
			m, err := out.Read(said[n:])
			if n += m; err != nil {
				t.Fatalf("the writer ended: %s: %v", said[:n], err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its error is that it was killed
		s := opened(t, path, Options{Damaged: func(string, error) { t.Error("the file is damaged") }})
		write(t, s, some(1, rand.New(rand.NewPCG(uint64(round), 7))))
		count := map[string]int{}
		for _, r := range all(t, s, &decision.Query{}, 1000) {
			count[r.Name]++
		}
		batches := strings.Count(string(said), "\n")
		whole := 0
		for name, n := range count {
			if strings.HasPrefix(name, "batch-") {
				whole++
				if n%100 != 0 {
					t.Errorf("%d records of %s are stored", n, name)
				}
			}
		}
		if whole < batches-1 {
			t.Errorf("%d batches are stored, %d were reported", whole, batches)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A damaged file is set aside as soon as the damage is noticed, and a new file is created.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"not a database": func([]byte) []byte { return []byte(strings.Repeat("no database ", 1000)) },
		"torn":           func(text []byte) []byte { return text[:len(text)/2] },
		"pages are lost": func(text []byte) []byte { clear(text[4096 : len(text)-4096]); return text },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d.db")
			random := rand.New(rand.NewPCG(5, 6))
			first := opened(t, path, Options{})
			write(t, first, some(2000, random))
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = damage(text)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+"-wal", nil, 0o600); err != nil { // as a killed process leaves it
				t.Fatal(err)
			}
			var aside string
			s := opened(t, path, Options{Damaged: func(path string, _ error) { aside = path }})
			records := some(10, random)
			write(t, s, records)
			if got := all(t, s, &decision.Query{}, 100); len(got) != 10 {
				t.Errorf("%d records", len(got))
			}
			if kept, err := os.ReadFile(aside); err != nil || !bytes.Equal(kept, text) {
				t.Errorf("%q does not have the damaged file: %v", aside, err)
			}
		})
	}
}

// A file whose oldest records are damaged is set aside when they have to be deleted: otherwise it would be full, or kept too long, for ever.
func TestDamagedOldRecords(t *testing.T) {
	for name, o := range map[string]Options{"full": {MaxBytes: minPages * pageSize}, "old": {MaxAge: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d.db")
			now, aside, random := day, 0, rand.New(rand.NewPCG(5, 6))
			o.Now, o.Damaged = func() time.Time { return now }, func(string, error) { aside++ }
			first := opened(t, path, o)
			write(t, first, some(2500, random))
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(text, []byte("web-10")) / pageSize * pageSize
			clear(text[at:][:pageSize])
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			s := opened(t, path, o)
			now = day.Add(2 * time.Hour)
			for i := 0; i < 30 && aside == 0; i++ {
				records := some(250, random)
				for k := range records {
					records[k].Time = now.Add(time.Duration(250*i+k) * time.Second)
				}
				if err := errors.Join(s.Write(t.Context(), records), s.Tidy(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			if aside != 1 {
				t.Errorf("the file was set aside %d times", aside)
			}
		})
	}
}

// Decisions of the same time, of which some count to the next hour in the file, keep all their parts as long as they are there.
func TestSameTimeAtTheEndOfAnHour(t *testing.T) {
	now := day
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{MaxAge: time.Hour, Now: func() time.Time { return now }})
	records := some(40, rand.New(rand.NewPCG(5, 6)))
	for i := range records {
		records[i].Time = day.Add(time.Hour - time.Microsecond)
	}
	write(t, s, records)
	now = day.Add(2 * time.Hour)
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := all(t, s, &decision.Query{}, 100)
	for _, r := range got {
		if r.User == "" || r.Kind == "" {
			t.Fatalf("%+v", r)
		}
	}
	if len(got) != 39 {
		t.Errorf("%d records", len(got))
	}
}

// A file that another process moves or deletes is replaced by a new one, for the store and for the processes that read it: whatever is reported as stored can be found.
func TestMovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	records := some(100, rand.New(rand.NewPCG(5, 6)))
	slices.Reverse(records[50:]) // the terms of both files have other ids
	write(t, s, records[:50])
	reader, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	readers := []decision.Reader{s, reader}
	for _, r := range readers {
		if got := all(t, r, &decision.Query{}, 1000); len(got) != 50 {
			t.Fatalf("%d records", len(got))
		}
	}
	if err := errors.Join(os.Rename(path, path+".old"), os.Rename(path+"-wal", path+".old-wal")); err != nil {
		t.Fatal(err)
	}
	if got := all(t, reader, &decision.Query{}, 1000); len(got) != 50 {
		t.Errorf("%d records before there is a new file", len(got))
	}
	write(t, s, records[50:])
	for _, r := range readers {
		got := all(t, r, &decision.Query{}, 1000)
		if len(got) != 50 {
			t.Fatalf("%d records", len(got))
		}
		for i, one := range got {
			if want := records[50+i]; one.UID != want.UID || one.User != want.User || one.Kind != want.Kind || len(one.Rules) != len(want.Rules) {
				t.Fatalf("%+v, want %+v", one, want)
			}
		}
	}
	old, err := ReadSQLite(path + ".old")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if got := all(t, old, &decision.Query{}, 1000); len(got) != 50 {
		t.Errorf("the moved file has %d records", len(got))
	}
}

// Only one process has the file open for writing. Another one can read it, and can write to it after the first process has ended.
func TestExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	records := some(10, rand.New(rand.NewPCG(7, 8)))
	first, second := opened(t, path, Options{}), opened(t, path, Options{})
	write(t, first, records)
	if err := second.Write(t.Context(), records); !errors.Is(err, errLocked) {
		t.Errorf("%v", err)
	}
	reader, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := all(t, reader, &decision.Query{}, 100); len(got) != 10 {
		t.Errorf("%d records", len(got))
	}
	if err := reader.Write(t.Context(), records); !errors.Is(err, errReads) {
		t.Errorf("%v", err)
	}
	if err := errors.Join(reader.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	write(t, second, records)
	if err := first.Write(t.Context(), records); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A user's records can be erased. Afterwards, the name of the user is nowhere in the bytes of the file.
func TestEraseUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	records := some(500, rand.New(rand.NewPCG(9, 10)))
	want := 0
	for i := range records {
		if records[i].User == "user-3" {
			want++
			records[i].User = "jane.roe@example.org"
			records[i].Message = "refused for jane.roe@example.org"
		}
	}
	write(t, s, records)
	n, err := s.EraseUser(t.Context(), "jane.roe@example.org")
	if err != nil || n != want {
		t.Errorf("%d records, want %d: %v", n, want, err)
	}
	if got := all(t, s, &decision.Query{}, 1000); len(got) != len(records)-want {
		t.Errorf("%d records are left", len(got))
	}
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("jane.roe")) {
			t.Errorf("%s still has the name", path+suffix)
		}
	}
	write(t, s, records[:1])
}

// A write returns when the disk has the records: with less than FULL (2), a node that loses its power loses the last ones.
func TestStoredIsOnTheDisk(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{})
	write(t, s, some(1, rand.New(rand.NewPCG(101, 102))))
	if mode, _, err := number(t.Context(), s.write, "PRAGMA synchronous"); mode != 2 || err != nil {
		t.Errorf("synchronous is %d, %v", mode, err)
	}
}

// A file that was set aside still has the data of a user, so the user is not reported as erased.
func TestEraseUserOfADamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	write(t, s, some(50, rand.New(rand.NewPCG(99, 100))))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("no database, and user-3 ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s = opened(t, path, Options{})
	for range 2 {
		if _, err := s.EraseUser(t.Context(), "user-3"); err == nil || !strings.Contains(err.Error(), path+".damaged") {
			t.Errorf("%v", err)
		}
	}
	if err := os.Remove(path + ".damaged"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EraseUser(t.Context(), "user-3"); err != nil {
		t.Error(err)
	}
}

// While another process reads the file, it keeps what it reads. A user is not reported as erased then, and another erasure completes this one.
func TestEraseUserWhileTheFileIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	records := some(50, rand.New(rand.NewPCG(93, 94)))
	for i := range records {
		records[i].User = "jane.roe@example.org"
	}
	write(t, s, records)
	reader, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	tx, done, err := reader.view(t.Context())
	if err == nil {
		_, _, err = number(t.Context(), tx, "SELECT id FROM decision")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.write.ExecContext(t.Context(), "PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.EraseUser(t.Context(), "jane.roe@example.org"); n != len(records) || !errors.Is(err, errRead) {
		t.Errorf("%d records are erased, %v", n, err)
	}
	done(nil)
	if n, err := s.EraseUser(t.Context(), "jane.roe@example.org"); n != 0 || err != nil {
		t.Errorf("%d records are erased, %v", n, err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if text, err := os.ReadFile(path + suffix); err != nil || bytes.Contains(text, []byte("jane.roe")) {
			t.Errorf("%s still has the name, %v", path+suffix, err)
		}
	}
}

// Decisions with the same results as deleted ones are found by their policies, also if the deletion of terms is not complete yet.
func TestPoliciesOfTermsThatAreLeft(t *testing.T) {
	now := day
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{MaxAge: time.Hour, Now: func() time.Time { return now }})
	records := some(stepRows-1, rand.New(rand.NewPCG(95, 96)))
	for i := range records {
		records[i].User, records[i].Verdict, records[i].Message, records[i].Time = fmt.Sprintf("person-%d", i), decision.Refused, fmt.Sprintf("refused for %d", i), day.Add(time.Duration(i)*time.Millisecond)
	}
	last := &records[len(records)-1]
	last.Rules = []decision.Result{{Policy: "rare", Rule: "r", Status: "fail", Action: "Audit"}}
	write(t, s, records)
	now = day.Add(3 * time.Hour)
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := all(t, s, &decision.Query{}, 1000); len(got) > 0 {
		t.Fatalf("%d old records are left", len(got))
	}
	last.Time = now
	write(t, s, []decision.Record{*last})
	if got := all(t, s, &decision.Query{Policies: []string{"rare"}}, 10); len(got) != 1 {
		t.Errorf("%d records of the policy", len(got))
	}
}

// Old records are deleted after a restart, although nothing is stored or read.
func TestOldRecordsAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	write(t, s, some(10, rand.New(rand.NewPCG(97, 98))))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, path, Options{MaxAge: time.Hour, Now: func() time.Time { return day.Add(24 * time.Hour) }})
	other := opened(t, path, Options{MaxAge: time.Hour})
	for _, one := range []*SQLite{s, other} { // the other process waits for the end of the first one
		if err := one.Tidy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	reader, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	if got := all(t, reader, &decision.Query{}, 1000); len(got) > 0 {
		t.Errorf("%d old records are left", len(got))
	}
}

// Concurrent queries and writes do not affect each other.
func TestConcurrent(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{MaxBytes: minPages * pageSize})
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Page(t.Context(), &decision.Query{Policies: []string{"strict"}}, "", 50); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	write(t, s, some(8000, rand.New(rand.NewPCG(11, 12))))
	cancel()
	reading.Wait()
}

// BenchmarkSQLite measures the time of one record, and its size on the disk.
func BenchmarkSQLite(b *testing.B) {
	path := filepath.Join(b.TempDir(), "d.db")
	s := opened(b, path, Options{})
	records := some(20_000, rand.New(rand.NewPCG(13, 14)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		batch := records[n*250%20_000:][:250]
		for i := range batch {
			batch[i].Time = batch[i].Time.Add(24 * time.Hour)
		}
		if err := s.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*250), "ns/record")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/float64(n*250), "bytes/record")
}
