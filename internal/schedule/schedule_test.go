package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/schedule"
)

func TestParse(t *testing.T) {
	from := time.Date(2026, 1, 31, 23, 58, 30, 0, time.UTC)
	for text, want := range map[string]string{
		"* * * * *":                    "2026-01-31T23:59:00Z",
		"*/5 * * * *":                  "2026-02-01T00:00:00Z",
		" 0 12 * * * ":                 "2026-02-01T12:00:00Z",
		"0 0 1-7 * MON":                "2026-02-01T00:00:00Z",
		"0 0 29 2 *":                   "2028-02-29T00:00:00Z",
		"@daily":                       "2026-02-01T00:00:00Z",
		"@monthly":                     "2026-02-01T00:00:00Z",
		"CRON_TZ=Etc/GMT-2 0 12 * * *": "2026-02-01T10:00:00Z",
	} {
		s, err := schedule.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := s.Next(from).Format(time.RFC3339); got != want {
			t.Errorf("%s: next %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{
		"", " ", "* * * *", "* * * * * *", "61 * * * *", "@every 1m", "@sometimes", "a b c d e", "TZ=Nowhere * * * * *", "TZ=", "CRON_TZ=UTC", strings.Repeat("1,", 600) + "1 * * * *",
	} {
		if _, err := schedule.Parse(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	if _, err := schedule.Parse("0 0 30 2 *"); !errors.Is(err, schedule.ErrNever) {
		t.Errorf("the 30th of February: %v", err)
	}
}

func TestDue(t *testing.T) {
	s, err := schedule.Parse("0 * * * *")
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		last, now string
		due       bool
		next      string
	}{
		{"2026-01-01T10:30:00Z", "2026-01-01T10:59:59Z", false, "2026-01-01T11:00:00Z"},
		{"2026-01-01T10:30:00Z", "2026-01-01T11:00:00Z", true, "2026-01-01T12:00:00Z"},
		{"2026-01-01T10:30:00Z", "2026-01-01T15:10:00Z", true, "2026-01-01T16:00:00Z"},
		{"2026-01-01T11:00:00Z", "2026-01-01T11:00:01Z", false, "2026-01-01T12:00:00Z"},
	} {
		due, next := s.Due(at(c.last), at(c.now))
		if due != c.due || !next.Equal(at(c.next)) {
			t.Errorf("%+v: %v, %v", c, due, next)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "@daily", "TZ=UTC 1-2/3 * * * 0", "TZ="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := schedule.Parse(text)
		if err != nil {
			return
		}
		if from := time.Unix(0, 0); !s.Next(from).After(from) {
			t.Errorf("%q is due at %v after %v", text, s.Next(from), from)
		}
	})
}
