package schedule

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// TTLLabel is the label that holds when an object is deleted. PropagationAnnotation holds the deletion propagation for its dependents:
// Foreground, Background or Orphan.
const (
	TTLLabel              = "cleanup.kyverno.io/ttl"
	PropagationAnnotation = "cleanup.kyverno.io/propagation-policy"
)

// Layouts of absolute times in a label, which cannot contain colons.
const (
	layoutTime = "2006-01-02T150405Z"
	layoutDate = "2006-01-02"
)

// EndOfLife parses the value of TTLLabel and returns when an object that was created at created is due: a duration after its creation
// (`90s`, `1h30m`, `1d`, `2w`), a time in UTC (`2026-01-31T150405Z`), or a date, which means midnight in UTC. A time in the past is not an
// error.
func EndOfLife(value string, created time.Time) (time.Time, error) {
	d, err := duration(value)
	if err == nil {
		return created.Add(d).UTC(), nil
	}
	if t, err := time.Parse(layoutTime, value); err == nil {
		return t, nil
	}
	t, err := time.Parse(layoutDate, value)
	if err != nil {
		return time.Time{}, err
	}
	return t, nil
}

// units are the units of a TTL. Long words and plurals are accepted because other parsers of such durations accept them.
var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "wk": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

var errDuration = errors.New("it is not a duration")

// duration parses one or more numbers with units, such as 1d12h. There is no sign, since a label cannot begin with one.
func duration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errDuration
	}
	var sum float64
	for text != "" {
		n := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if n <= 0 {
			return 0, errDuration
		}
		number, err := strconv.ParseFloat(text[:n], 64)
		if err != nil {
			return 0, errDuration
		}
		text = text[n:]
		if n = strings.IndexAny(text, "0123456789"); n < 0 {
			n = len(text)
		}
		word := strings.ToLower(text[:n])
		unit, known := units[word]
		if !known && len(word) > 2 {
			unit, known = units[strings.TrimSuffix(word, "s")]
		}
		if !known {
			return 0, fmt.Errorf("%w: there is no unit %q", errDuration, word)
		}
		text = text[n:]
		sum += number * float64(unit)
	}
	if sum > math.MaxInt64/2 {
		return 0, fmt.Errorf("%w: it is too long", errDuration)
	}
	return time.Duration(sum), nil
}
