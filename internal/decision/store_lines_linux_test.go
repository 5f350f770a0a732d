package decision

import (
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file has a batch as a whole or not at all: a batch that a full disk took in part is not stored twice when it is sent again.
func TestBatchOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l, err := OpenLines(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write(t.Context(), line("before")); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(r syscall.Rlimit) {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
			t.Fatal(err)
		}
	}
	batch := append(line("1"), line(strings.Repeat("2", 1000))...)
	limit(syscall.Rlimit{Cur: 1000, Max: before.Max})
	err = l.Write(t.Context(), batch)
	limit(before)
	if err == nil {
		t.Fatal("a full disk takes records")
	}
	if err := l.Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if uids, wrong := read(t, path); len(uids) != 3 || uids[1] != "1" || wrong > 0 {
		t.Errorf("%.20q, %d lines cannot be read", uids, wrong)
	}
}
