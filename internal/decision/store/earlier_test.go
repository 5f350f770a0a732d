package store

import (
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/decision"
)

// earlierRecords are the records in the stores that the version 14a526b2 wrote (testdata/14a526b2.*).
func earlierRecords() []decision.Record {
	return withRequests(some(60, rand.New(rand.NewPCG(71, 72))), rand.New(rand.NewPCG(73, 74)))
}

// earlier returns a file of testdata.
func earlier(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testEarlier reads a store of an earlier version, and writes to it.
func testEarlier(t *testing.T, reader Readable, writer interface {
	decision.Store
	decision.Reader
}, brief bool) {
	t.Helper()
	compare := func(s decision.Reader, want []decision.Record) {
		t.Helper()
		got := all(t, s, &decision.Query{Requests: true, Oldest: true}, 100)
		if len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i := range got {
			if !same(&got[i], &want[i], brief) {
				t.Fatalf("%+v\n%+v", got[i], want[i])
			}
		}
	}
	records := earlierRecords()
	compare(reader, records)
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	more := withRequests(some(90, rand.New(rand.NewPCG(75, 76))), rand.New(rand.NewPCG(77, 78)))[60:]
	write(t, writer, more)
	compare(writer, append(records, more...))
}

func TestEarlierFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	if err := os.WriteFile(path, []byte(earlier(t, "14a526b2.db.gz")), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := OpenReader("sqlite:" + path)
	if err != nil {
		t.Fatal(err)
	}
	testEarlier(t, reader, opened(t, path, Options{}), true)
}

func TestEarlierDatabase(t *testing.T) {
	d := newDatabase(t)
	var dump strings.Builder
	for line := range strings.Lines(earlier(t, "14a526b2.sql.gz")) {
		if !strings.HasPrefix(line, `\`) { // a command of psql
			dump.WriteString(line)
		}
	}
	d.run(dump.String())
	reader, err := OpenReader(d.Address)
	if err != nil {
		t.Fatal(err)
	}
	testEarlier(t, reader, d.open(Options{}), false)
}

// A file whose migration was interrupted is migrated by the next write. The version 14a526b2 added the column, and then stated the new version.
func TestInterruptedMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	records := withRequests(some(20, rand.New(rand.NewPCG(79, 80))), rand.New(rand.NewPCG(81, 82)))
	write(t, s, records[:10])
	if _, err := s.write.Exec("PRAGMA user_version = 2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := opened(t, path, Options{})
	write(t, again, records[10:])
	if got := all(t, again, &decision.Query{}, 100); len(got) != len(records) {
		t.Errorf("%d records, want %d", len(got), len(records))
	}
}
