package dashboard

import (
	"testing"

	"ephor.invalid/ephor/internal/compliance"
)

// A result with a time that is none is shown without one: the admin of a namespace may write any number into a report, and the page of every
// reader would end with an error.
func TestTimesOfResults(t *testing.T) {
	for seconds, want := range map[float64]int64{1_800_000_000: 1_800_000_000, 0: 0, -5: 0, 253402300799: 253402300799, 253402300800: 0, 9e18: 0, 1e300: 0} {
		d := detailOf(&compliance.Result{}, map[string]any{"timestamp": map[string]any{"seconds": seconds}})
		if d.Seconds != want {
			t.Errorf("%v: %d, want %d", seconds, d.Seconds, want)
		}
	}
}
