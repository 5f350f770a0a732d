package schedule_test

import (
	"testing"
	"time"

	"ephor.invalid/ephor/internal/schedule"
)

// The formats of the label cleanup.kyverno.io/ttl.
func TestEndOfLife(t *testing.T) {
	created := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]string{
		"10s":                "2026-01-31T12:00:10Z",
		"2m":                 "2026-01-31T12:02:00Z",
		"1h":                 "2026-01-31T13:00:00Z",
		"1h30m":              "2026-01-31T13:30:00Z",
		"1.5h":               "2026-01-31T13:30:00Z",
		"3d":                 "2026-02-03T12:00:00Z",
		"2w":                 "2026-02-14T12:00:00Z",
		"1d12h":              "2026-02-02T00:00:00Z",
		"2days":              "2026-02-02T12:00:00Z",
		"1week":              "2026-02-07T12:00:00Z",
		"0s":                 "2026-01-31T12:00:00Z",
		"2023-07-19T120000Z": "2023-07-19T12:00:00Z",
		"2027-07-19":         "2027-07-19T00:00:00Z",
	} {
		got, err := schedule.EndOfLife(value, created)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %v %v, want %s", value, got, err, want)
		}
	}
	for _, value := range []string{"", "10", "10ay", "h", "1h30", "1..5h", "2026-02-30", "2026-1-1", "2026-01-31T15:04:05Z", "2026-01-31T150405", "tomorrow", "999999999999w"} {
		if at, err := schedule.EndOfLife(value, created); err == nil {
			t.Errorf("%q was read as %v", value, at)
		}
	}
}

func FuzzEndOfLife(f *testing.F) {
	for _, s := range []string{"10s", "1d12h", "2026-01-31", "2026-01-31T150405Z", "1.h", "9999999999999999h"} {
		f.Add(s)
	}
	created := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, value string) {
		at, err := schedule.EndOfLife(value, created)
		if err == nil && len(value) > 0 && value[len(value)-1] != 'Z' && len(value) != len("2006-01-02") && at.Before(created) {
			t.Errorf("%q ends at %v, before the object was made", value, at)
		}
	})
}
