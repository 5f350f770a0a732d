package terminal

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

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ForDownloads returns the output for the progress of long downloads: standard error, if it is a terminal.
func ForDownloads(cmd *cobra.Command) io.Writer {
	if w := cmd.ErrOrStderr(); IsTerminal(w) {
		return w
	}
	return nil
}

// Progress draws a bar on a terminal once the work has taken a while. A nil Progress draws nothing.
type Progress struct {
	w         io.Writer
	known     atomic.Int64 // found so far
	finished  atomic.Int64
	stop      chan struct{}
	stopped   sync.WaitGroup
	drawing   sync.Mutex
	drawn     bool
	threshold time.Duration
	what      string // what is counted, such as "resources evaluated"
}

const (
	progressAfter = 700 * time.Millisecond
	progressEvery = 100 * time.Millisecond
	progressWidth = 30
)

func NewProgress(w io.Writer, what string) *Progress {
	if !IsTerminal(w) {
		return nil
	}
	return startProgress(w, progressAfter, what)
}

func startProgress(w io.Writer, after time.Duration, what string) *Progress {
	p := &Progress{w: w, stop: make(chan struct{}), threshold: after, what: what}
	p.stopped.Add(1)
	go p.loop()
	return p
}

func (p *Progress) Total(n int) {
	if p != nil {
		p.known.Add(int64(n))
	}
}

func (p *Progress) Add(n int) {
	if p != nil {
		p.finished.Add(int64(n))
	}
}

// Pause removes the bar while other output is printed; Resume lets the bar appear again.
func (p *Progress) Pause() {
	if p == nil {
		return
	}
	p.drawing.Lock()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *Progress) Resume() {
	if p != nil {
		p.drawing.Unlock()
	}
}

// End removes the bar.
func (p *Progress) End() {
	if p == nil {
		return
	}
	close(p.stop)
	p.stopped.Wait()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *Progress) loop() {
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

// bar returns the text of the bar when done of all items are done.
func bar(done, all int64, what string) string {
	filled := 0
	if all > 0 {
		filled = int(min(done, all) * progressWidth / all)
	}
	return fmt.Sprintf("[%s%s] %d of %d %s", strings.Repeat("=", filled), strings.Repeat(" ", progressWidth-filled), done, all, what)
}
