package terminal

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	for _, c := range []struct {
		done, all int64
		want      string
	}{
		{0, 0, "[" + strings.Repeat(" ", 30) + "] 0 of 0 resources evaluated"},
		{5, 10, "[" + strings.Repeat("=", 15) + strings.Repeat(" ", 15) + "] 5 of 10 resources evaluated"},
		{10, 10, "[" + strings.Repeat("=", 30) + "] 10 of 10 resources evaluated"},
	} {
		if got := bar(c.done, c.all, "resources evaluated"); got != c.want {
			t.Errorf("bar(%d, %d) = %q, want %q", c.done, c.all, got, c.want)
		}
	}
}

// locked is a writer that a test may read while another goroutine writes.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The bar appears if the work takes long, shows its progress, and is removed at the end.
func TestProgress(t *testing.T) {
	var w locked
	p := startProgress(&w, time.Millisecond, "resources evaluated")
	p.Total(4)
	p.Add(1)
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(w.String(), "1 of 4 resources evaluated") {
		if time.Now().After(deadline) {
			t.Fatalf("no bar: %q", w.String())
		}
		time.Sleep(time.Millisecond)
	}
	p.End()
	if s := w.String(); !strings.HasSuffix(s, "\r\x1b[K") {
		t.Errorf("the bar is still there: %q", s)
	}
}

// No bar is drawn for short work, or without a terminal.
func TestProgressQuiet(t *testing.T) {
	var w locked
	p := startProgress(&w, time.Hour, "resources evaluated")
	p.Total(4)
	p.Add(4)
	p.End()
	if w.String() != "" {
		t.Errorf("drew %q", w.String())
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if NewProgress(f, "") != nil {
		t.Error("a progress bar in a file")
	}
	var none *Progress
	none.Total(1)
	none.Add(1)
	none.End()
}
