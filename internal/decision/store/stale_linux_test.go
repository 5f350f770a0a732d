package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"ephor.invalid/ephor/internal/decision"
)

// stale makes the open descriptors of files useless, as those of a network volume are that was away: they can be neither read nor written.
func stale(t *testing.T, paths ...string) {
	t.Helper()
	replaced(t, t.TempDir(), paths...)
}

// replaced makes the open descriptors of files those of another file or directory.
func replaced(t *testing.T, by string, paths ...string) {
	t.Helper()
	dir, err := os.Open(by)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	const fds = "/proc/self/fd"
	open, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range open {
		to, _ := os.Readlink(filepath.Join(fds, e.Name())) // one was closed with the list
		for _, path := range paths {
			if to != path {
				continue
			}
			n, err := strconv.Atoi(e.Name())
			if err == nil {
				err = syscall.Dup3(int(dir.Fd()), n, syscall.O_CLOEXEC)
			}
			if err != nil {
				t.Fatal(err)
			}
			found++
		}
	}
	if found < len(paths) {
		t.Fatalf("%d descriptors of %d files", found, len(paths))
	}
}

// A file on a volume that was away is opened again, with all records that were reported as stored.
func TestStaleFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{Damaged: func(string, error) { t.Error("a file that was away counts as damaged") }})
	records := some(1010, rand.New(rand.NewPCG(55, 56)))
	write(t, s, records[:1000])
	stale(t, path, path+"-wal")
	if err := s.Write(t.Context(), records[1000:]); err == nil {
		t.Fatal("stored on a volume that is away")
	}
	if err := s.Write(t.Context(), records[1000:]); err != nil {
		t.Fatal(fmt.Errorf("the volume is back: %w", err))
	}
	if got := all(t, s, &decision.Query{}, 1000); len(got) != len(records) {
		t.Errorf("%d records, want %d", len(got), len(records))
	}
}

// A reader of a file on a volume that was away opens the file again.
func TestStaleReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	records := some(3000, rand.New(rand.NewPCG(87, 88)))
	write(t, s, records)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.Page(t.Context(), &decision.Query{}, "", 1); err != nil {
		t.Fatal(err)
	}
	stale(t, path)
	if _, err := reader.Page(t.Context(), &decision.Query{}, "", len(records)); err == nil {
		t.Fatal("read on a volume that is away")
	}
	if page, err := reader.Page(t.Context(), &decision.Query{}, "", len(records)); err != nil || len(page.Records) != len(records) {
		t.Errorf("the volume is back: %d records, %v", len(page.Records), err)
	}
}

// A file on a volume that was away may look damaged. It is set aside only if it is damaged when it is opened again.
func TestStaleFileLooksDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{Damaged: func(string, error) { t.Error("a file that was away counts as damaged") }})
	records := some(3010, rand.New(rand.NewPCG(97, 98)))
	write(t, s, records[:3000])
	for _, text := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA shrink_memory"} { // pages are read from the file
		if _, err := s.write.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	replaced(t, empty, path)
	if err := s.Write(t.Context(), records[3000:]); err != nil {
		t.Logf("the volume is away: %v", err)
		write(t, s, records[3000:])
	}
	if got := all(t, s, &decision.Query{}, 1000); len(got) != len(records) {
		t.Errorf("%d records, want %d", len(got), len(records))
	}
}
