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

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress draws a bar on a terminal once the work has taken a while. The nil progress draws nothing.
type progress struct {
	w         io.Writer
	known     atomic.Int64 // found so far
	finished  atomic.Int64
	stop      chan struct{}
	stopped   sync.WaitGroup
	drawing   sync.Mutex
	drawn     bool
	threshold time.Duration
	what      string // what is counted and done: resources evaluated
}

const (
	progressAfter = 700 * time.Millisecond
	progressEvery = 100 * time.Millisecond
	progressWidth = 30
)

func newProgress(w io.Writer, what string) *progress {
	if !isTerminal(w) {
		return nil
	}
	return startProgress(w, progressAfter, what)
}

func startProgress(w io.Writer, after time.Duration, what string) *progress {
	p := &progress{w: w, stop: make(chan struct{}), threshold: after, what: what}
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

// pause takes the bar away while something else is printed; resume lets it be drawn again.
func (p *progress) pause() {
	if p == nil {
		return
	}
	p.drawing.Lock()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *progress) resume() {
	if p != nil {
		p.drawing.Unlock()
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
			p.drawing.Lock()
			p.drawn = true
			fmt.Fprint(p.w, "\r"+bar(p.finished.Load(), p.known.Load(), p.what)+"\x1b[K")
			p.drawing.Unlock()
			wait.Reset(progressEvery)
		}
	}
}

// bar is the line for done of all things that are counted.
func bar(done, all int64, what string) string {
	filled := 0
	if all > 0 {
		filled = int(min(done, all) * progressWidth / all)
	}
	return fmt.Sprintf("[%s%s] %d of %d %s", strings.Repeat("=", filled), strings.Repeat(" ", progressWidth-filled), done, all, what)
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
