package serving

import (
	"log/slog"
	"testing"
	"time"
)

// Reviews are answered only if the stamp changes; a lease that has a stamp is not sufficient.
func TestHeartbeatEvaluate(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	reported := 0
	h := &Heartbeat{Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Changed: func() { reported++ }}
	for i, c := range []struct {
		after    time.Duration
		stamp    string
		healthy  bool
		next     time.Duration
		reported int
	}{
		{0, "1", false, heartbeatAgain, 0},               // the stamp may be old
		{2 * time.Second, "1", false, heartbeatAgain, 0}, // the stamp was old
		{2 * time.Second, "2", true, heartbeatEvery, 1},
		{10 * time.Second, "3", true, heartbeatEvery, 1},
		{10 * time.Second, "3", true, heartbeatAgain, 1}, // one heartbeat is lost
		{10 * time.Second, "4", true, heartbeatEvery, 1},
		{20 * time.Second, "4", true, heartbeatAgain, 1},
		{20 * time.Second, "4", false, heartbeatAgain, 2}, // half a minute without a stamp
		{10 * time.Second, "", false, heartbeatAgain, 2},  // no webhook, no stamp
		{10 * time.Second, "5", true, heartbeatEvery, 3},
		{time.Hour, "6", false, heartbeatAgain, 3}, // a new term as leader
		{2 * time.Second, "7", true, heartbeatEvery, 4},
	} {
		now = now.Add(c.after)
		if next := h.evaluate(c.stamp); h.Healthy() != c.healthy || next != c.next || reported != c.reported {
			t.Errorf("beat %d: healthy %v, next %s, reported %d; want %+v", i, h.Healthy(), next, reported, c)
		}
	}
}
