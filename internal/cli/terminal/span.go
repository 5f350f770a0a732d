package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span is a flag for a length of time, such as 24h, 7d or 2w. The zero Span means no limit.
type Span time.Duration

// maxSpan is the longest Span: a hundred years.
const maxSpan = 100 * 365 * 24 * time.Hour

// Set implements pflag.Value.
func (s *Span) Set(text string) error {
	d, err := time.ParseDuration(text)
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			var n float64
			if n, err = strconv.ParseFloat(number, 64); err == nil && n >= 0 && n <= float64(maxSpan/length) {
				d = time.Duration(n * float64(length))
			} else {
				d = -1
			}
		}
	}
	if err != nil || d < 0 || d > maxSpan {
		return fmt.Errorf("%q is not a length of time, such as 24h, 7d or 2w", text)
	}
	*s = Span(d)
	return nil
}

// String implements pflag.Value.
func (s *Span) String() string {
	switch d := time.Duration(*s); {
	case d == 0:
		return ""
	case d%(24*time.Hour) == 0:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	default:
		return d.String()
	}
}

// Type implements pflag.Value.
func (s *Span) Type() string { return "duration" }

// Before returns the time that is s before now, or the zero time if there is no limit.
func (s Span) Before(now time.Time) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return now.Add(-time.Duration(s))
}
