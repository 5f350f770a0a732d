package decisions

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"testing"
)

// A file is followed while it grows, and when another file replaces it. An incomplete line at the end of the old file remains a separate
// line.
func TestGrowing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	appendTo := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	appendTo("1\n2")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	g, err := openGrowing(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(g); in.Scan(); {
			lines <- in.Text()
		}
	}()
	want := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if got := <-lines; got != text {
				t.Fatalf("%q, want %q", got, text)
			}
		}
	}
	want("1")
	appendTo("2\n3\ntorn")
	want("22", "3")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	appendTo("4 and more\n")
	want("torn", "4 and more")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // truncate the file
		t.Fatal(err)
	}
	appendTo("5\n")
	want("5")
	stop()
	if got, more := <-lines; more {
		t.Errorf("%q after the end", got)
	}
}
