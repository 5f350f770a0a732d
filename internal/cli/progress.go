package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// isTerminal reports whether w is a terminal that somebody may be looking at.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress draws a bar on a terminal once the work has taken a while. The nil progress draws nothing.
type progress struct {
	w         io.Writer
	known     atomic.Int64 // documents found so far
	finished  atomic.Int64
	stop      chan struct{}
	stopped   sync.WaitGroup
	drawn     bool
	threshold time.Duration
}

const (
	progressAfter = 700 * time.Millisecond
	progressEvery = 100 * time.Millisecond
	progressWidth = 30
)

func newProgress(w io.Writer) *progress {
	if !isTerminal(w) {
		return nil
	}
	return startProgress(w, progressAfter)
}

func startProgress(w io.Writer, after time.Duration) *progress {
	p := &progress{w: w, stop: make(chan struct{}), threshold: after}
	p.stopped.Add(1)
	go p.loop()
	return p
}

func (p *progress) total(n int) {
	if p != nil {
		p.known.Add(int64(n))
	}
}

func (p *progress) add(n int) {
	if p != nil {
		p.finished.Add(int64(n))
	}
}

// end takes the bar away again.
func (p *progress) end() {
	if p == nil {
		return
	}
	close(p.stop)
	p.stopped.Wait()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *progress) loop() {
	defer p.stopped.Done()
	wait := time.NewTimer(p.threshold)
	defer wait.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-wait.C:
			p.drawn = true
			fmt.Fprint(p.w, "\r"+bar(p.finished.Load(), p.known.Load())+"\x1b[K")
			wait.Reset(progressEvery)
		}
	}
}

// bar is the line for done of all documents.
func bar(done, all int64) string {
	filled := 0
	if all > 0 {
		filled = int(min(done, all) * progressWidth / all)
	}
	return fmt.Sprintf("[%s%s] %d of %d resources judged", strings.Repeat("=", filled), strings.Repeat(" ", progressWidth-filled), done, all)
}

// trace tells with -v what was done and how long it took.
type trace struct {
	w    io.Writer
	last time.Time
}

func newTrace(cmd *cobra.Command) *trace {
	if n, err := cmd.Flags().GetInt("v"); err != nil || n < 1 {
		return nil
	}
	return &trace{w: cmd.ErrOrStderr(), last: time.Now()}
}

func (t *trace) done(format string, args ...any) {
	if t == nil {
		return
	}
	now := time.Now()
	fmt.Fprintf(t.w, "%s in %s\n", fmt.Sprintf(format, args...), now.Sub(t.last).Round(time.Microsecond))
	t.last = now
}
