package terminal

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// trace logs with -v what was done and how long it took.
type trace struct {
	w    io.Writer
	last time.Time
}

func NewTrace(cmd *cobra.Command) *trace {
	if n, err := cmd.Flags().GetInt("v"); err != nil || n < 1 {
		return nil
	}
	return &trace{w: cmd.ErrOrStderr(), last: time.Now()}
}

func (t *trace) Done(format string, args ...any) {
	if t == nil {
		return
	}
	now := time.Now()
	fmt.Fprintf(t.w, "%s in %s\n", fmt.Sprintf(format, args...), now.Sub(t.last).Round(time.Microsecond))
	t.last = now
}
