package dashboard

import (
	"encoding/json"
	"net/url"
	"strings"
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

// The next page can be requested after any resource: the admin of a namespace may write reports about resources with any names.
func TestPositionsFitIntoARequest(t *testing.T) {
	p := newPage(false)
	long := strings.Repeat("\x01", 1000)
	entries := entriesOf(compliance.Report{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("r", 253), Results: []compliance.Result{{
		Policy: long, Result: compliance.Fail, Resource: compliance.Resource{Kind: long, Namespace: long, Name: long},
	}}})
	after, err := json.Marshal(entries[0].position())
	if err != nil {
		t.Fatal(err)
	}
	query := url.Values{"after": {string(after)}, "policy": {entries[0].rules[0].Value().policy}}
	if got := p.do("GET", "/api/v1/results?"+query.Encode(), "").StatusCode; got != 200 {
		t.Errorf("status %d for %d bytes", got, len(query.Encode()))
	}
}
