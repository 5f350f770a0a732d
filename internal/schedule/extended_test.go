package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/schedule"
)

func TestParseExtended(t *testing.T) {
	from := time.Date(2026, 1, 31, 23, 58, 30, 0, time.UTC) // a Saturday
	for text, want := range map[string]string{
		"* * * * *":            "2026-01-31T23:59:00Z",
		"*/5 * * * *":          "2026-02-01T00:00:00Z",
		" 0 12 * * * ":         "2026-02-01T12:00:00Z",
		"0 0 1-7 * MON":        "2026-02-01T00:00:00Z",
		"0 0 29 2 *":           "2028-02-29T00:00:00Z",
		"@daily":               "2026-02-01T00:00:00Z",
		"@Hourly":              "2026-02-01T00:00:00Z",
		"@weekly":              "2026-02-01T00:00:00Z",
		"0 0 1 1 ? 2030":       "2030-01-01T00:00:00Z",
		"*/20 * * * * * *":     "2026-01-31T23:58:40Z",
		"45 59 23 L * ? *":     "2026-01-31T23:59:45Z",
		"0 0 L * *":            "2026-02-28T00:00:00Z",
		"0 0 LW * *":           "2026-02-27T00:00:00Z", // the 28th is a Saturday
		"0 0 15W 2 *":          "2026-02-16T00:00:00Z", // the 15th is a Sunday
		"0 0 1W 8 *":           "2026-08-03T00:00:00Z", // the 1st is a Saturday, and the day before is in another month
		"0 0 * * 5L":           "2026-02-27T00:00:00Z",
		"0 0 * * FRI#2":        "2026-02-13T00:00:00Z",
		"0 0 * * 7":            "2026-02-01T00:00:00Z",
		"0 0 * * 2/5":          "2026-02-03T00:00:00Z", // 7 is the Sunday before
		"0 0 * mar-may sat":    "2026-03-07T00:00:00Z",
		"5/15 8-9 * * *":       "2026-02-01T08:05:00Z",
		"0 0 31 2,4 MON#1":     "2026-02-02T00:00:00Z",
		"30 58 23 31 1 * 2026": "0001-01-01T00:00:00Z", // in the past
	} {
		s, err := schedule.ParseExtended(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := s.Next(from).Format(time.RFC3339); got != want {
			t.Errorf("%s: next %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{
		"", " ", "* * * *", "* * * * * * * *", "61 * * * *", "@every 1m", "@sometimes", "a b c d e", "* * 0 * *", "*/0 * * * *", "5-1 * * * *",
		"* * * * 8", "* * * * 5#6", "* * * * #1", "* * W * *", "* * 32W * *", "1- * * * *", "? * * * *", "* * * * * 1969", "-1 * * * *", strings.Repeat("1,", 600) + "1 * * * *",
	} {
		if _, err := schedule.ParseExtended(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	if _, err := schedule.ParseExtended("0 0 30 2 *"); !errors.Is(err, schedule.ErrNever) {
		t.Errorf("the 30th of February: %v", err)
	}
}

// Both parsers agree on schedules with five fields.
func TestExtendedAgrees(t *testing.T) {
	for _, text := range []string{"* * * * *", "*/7 3-5 * * *", "0 0 13 * FRI", "15,45 */6 1-10 2,4 *", "30 4 * * 1-5", "0 0 29 2 *", "0 0 * * 1/2", "0 0 * * MON/3,5", "0 0 * * */2", "5/20 3/7 4/9 2/5 *"} {
		a, err := schedule.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := schedule.ParseExtended(text)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)
		for range 200 {
			x, y := a.Next(at), b.Next(at)
			if x.IsZero() || x.Year() > 2099 {
				break // one parser looks five years ahead, the other up to 2099
			}
			if !x.Equal(y) {
				t.Fatalf("%s after %s: %s and %s", text, at, x, y)
			}
			at = x
		}
	}
}

// FuzzParseExtended parses any text: parsing ends, and an accepted schedule has a next time.
func FuzzParseExtended(f *testing.F) {
	for _, s := range []string{"* * * * *", "0 0 L * *", "@daily", "0 0 15W 1 5#2 2030", "*/5 1-2,3 ? JAN MON-FRI"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := schedule.ParseExtended(text)
		if err == nil && s.Next(time.Unix(0, 0)).IsZero() {
			t.Errorf("%q is never due", text)
		}
	})
}
