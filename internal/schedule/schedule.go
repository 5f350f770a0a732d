package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule computes the times of a cron schedule. It is immutable.
type Schedule struct{ next cron.Schedule }

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// ErrNever is wrapped by the error for a schedule that is never due, such as the 30th of February.
var ErrNever = errors.New("it is never due")

// longest is the maximum length of a schedule's text in bytes.
const longest = 1000

// Parse parses a schedule.
func Parse(text string) (s *Schedule, err error) {
	defer func() {
		if v := recover(); v != nil { // the library panics on a broken time zone prefix
			s, err = nil, fmt.Errorf("it cannot be read: %v", v)
		}
	}()
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, errors.New("it is empty")
	case len(text) > longest:
		return nil, fmt.Errorf("it is longer than %d bytes", longest)
	case strings.Contains(text, "@every"):
		return nil, errors.New("@every is not supported; write the five fields")
	}
	if !strings.HasPrefix(text, "TZ=") && !strings.HasPrefix(text, "CRON_TZ=") {
		text = "CRON_TZ=UTC " + text
	}
	next, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	if next.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, ErrNever
	}
	return &Schedule{next}, nil
}

// Next returns the first time of the schedule after t, in UTC.
func (s *Schedule) Next(t time.Time) time.Time { return s.next.Next(t).UTC() }

// Due reports whether the schedule was due between last and now, and when it is due next. Missed times count as one.
func (s *Schedule) Due(last, now time.Time) (bool, time.Time) {
	if next := s.Next(last); next.After(now) {
		return false, next
	}
	return true, s.Next(now)
}
