package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// ParseExtended parses a schedule with five to seven fields: seconds before the five standard ones if there are seven, and a year after
// them if there are six or seven. Beyond Parse, a day of the month may be L (the last one), LW (the last weekday) or 15W (the weekday
// closest to the 15th), and a day of the week 5L (the last Friday) or 5#2 (the second Friday).
//
// github.com/hashicorp/cronexpr, the maintained library for this dialect, is not used: its Next writes to the parsed schedule, so that two
// goroutines need a lock; the range 5-1 makes it panic; and it ignores fields after the seventh, which are mistakes of the author.
func ParseExtended(text string) (*Schedule, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, errors.New("it is empty")
	case len(text) > longest:
		return nil, fmt.Errorf("it is longer than %d bytes", longest)
	}
	if named, ok := names[strings.ToLower(text)]; ok {
		text = named
	}
	fields := strings.Fields(text)
	switch len(fields) {
	case 5:
		fields = append(append([]string{"0"}, fields...), "*")
	case 6:
		fields = append([]string{"0"}, fields...)
	case 7:
	default:
		return nil, fmt.Errorf("it has %d fields; there are five (minute, hour, day of the month, month, day of the week) up to seven (seconds before them, a year after them)", len(fields))
	}
	var x extended
	var err error
	for i, to := range []*[]uint64{&x.second, &x.minute, &x.hour, nil, &x.month, nil, &x.year} {
		if to == nil {
			continue
		}
		if *to, err = parts[i].parse(fields[i]); err != nil {
			return nil, err
		}
	}
	if err := x.days(fields[3], fields[5]); err != nil {
		return nil, err
	}
	if x.Next(time.Unix(0, 0)).IsZero() {
		return nil, ErrNever
	}
	return &Schedule{x}, nil
}

// names maps named schedules to their fields.
var names = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@hourly": "0 * * * *",
}

// part describes a field of a schedule.
type part struct {
	name     string
	min, max int
	words    string // three letters for each value, such as janfeb
}

var parts = [...]part{
	{name: "seconds", max: 59}, {name: "minutes", max: 59}, {name: "hours", max: 23},
	{name: "days of the month", min: 1, max: 31},
	{name: "months", min: 1, max: 12, words: "janfebmaraprmayjunjulaugsepoctnovdec"},
	{name: "days of the week", max: 7, words: "sunmontuewedthufrisat"},
	{name: "years", min: 1970, max: 2099},
}

// parse parses lists, ranges and steps. The result is a set of bits, the first of which is min.
func (p *part) parse(text string) ([]uint64, error) {
	out := make([]uint64, (p.max-p.min)/64+1)
	for item := range strings.SplitSeq(text, ",") {
		from, to, step, err := p.item(item)
		if err != nil {
			return nil, err
		}
		for v := from; v <= to; v += step {
			out[(v-p.min)/64] |= 1 << ((v - p.min) % 64)
		}
	}
	return out, nil
}

func (p *part) item(item string) (from, to, step int, err error) {
	span, every, stepped := strings.Cut(item, "/")
	step = 1
	if stepped {
		if step, err = number(every); err != nil || step < 1 {
			return 0, 0, 0, fmt.Errorf("%q is not a step of %s", item, p.name)
		}
	}
	first, last, isRange := strings.Cut(span, "-")
	switch {
	case span == "*" || span == "?" && (p == &parts[3] || p == &parts[5]):
		return p.min, p.max, step, nil
	case isRange:
		to, err = p.value(last)
	}
	if err == nil {
		from, err = p.value(first)
	}
	switch {
	case err != nil:
		return 0, 0, 0, err
	case !isRange && stepped && p == &parts[5]: // 7 is the first day of the week, too
		from, to = from%7, p.max-1
	case !isRange && stepped:
		to = p.max
	case !isRange:
		to = from
	}
	if from > to {
		return 0, 0, 0, fmt.Errorf("%q is not a range of %s", item, p.name)
	}
	return from, to, step, nil
}

func (p *part) value(text string) (int, error) {
	if len(text) == 3 {
		if i := strings.Index(p.words, strings.ToLower(text)); i >= 0 && i%3 == 0 {
			return i/3 + p.min, nil
		}
	}
	n, err := number(text)
	if err != nil || n < p.min || n > p.max {
		return 0, fmt.Errorf("%q is not one of the %s, %d to %d", text, p.name, p.min, p.max)
	}
	return n, nil
}

func number(text string) (int, error) {
	if text == "" || len(text) > 4 {
		return 0, errors.New("no number")
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, errors.New("no number")
		}
		n = 10*n + int(c-'0')
	}
	return n, nil
}

// extended is a schedule of ParseExtended.
type extended struct {
	second, minute, hour, month, year []uint64
	// Day of the month, and of the week: nil for any. If both are set, one of them must match.
	monthDay, weekDay []func(time.Time) bool
}

func has(set []uint64, i int) bool { return set[i/64]>>(i%64)&1 == 1 }

// days parses the two fields that select days.
func (x *extended) days(month, week string) error {
	if month != "*" && month != "?" {
		for item := range strings.SplitSeq(month, ",") {
			f, err := monthDay(item)
			if err != nil {
				return err
			}
			x.monthDay = append(x.monthDay, f)
		}
	}
	if week != "*" && week != "?" {
		for item := range strings.SplitSeq(week, ",") {
			f, err := weekDay(item)
			if err != nil {
				return err
			}
			x.weekDay = append(x.weekDay, f)
		}
	}
	return nil
}

func monthDay(item string) (func(time.Time) bool, error) {
	upper := strings.ToUpper(item)
	switch near, weekday := strings.CutSuffix(upper, "W"); {
	case upper == "L":
		return func(t time.Time) bool { return t.Day() == lastDay(t) }, nil
	case upper == "LW":
		return func(t time.Time) bool { return t.Day() == closestWeekday(t, lastDay(t)) }, nil
	case weekday:
		day, err := parts[3].value(near)
		return func(t time.Time) bool { return day <= lastDay(t) && t.Day() == closestWeekday(t, day) }, err
	}
	set, err := parts[3].parse(item)
	return func(t time.Time) bool { return has(set, t.Day()-1) }, err
}

func weekDay(item string) (func(time.Time) bool, error) {
	last, isLast := strings.CutSuffix(strings.ToUpper(item), "L")
	of, nth, isNth := strings.Cut(item, "#")
	if !isLast {
		last = of
	}
	if isLast || isNth {
		day, err := parts[5].value(last)
		if err != nil {
			return nil, err
		}
		n, err := number(nth)
		switch {
		case isLast:
			return func(t time.Time) bool { return int(t.Weekday()) == day%7 && t.Day()+7 > lastDay(t) }, nil
		case err != nil || n < 1 || n > 5:
			return nil, fmt.Errorf("%q is not a day of the week in a month: after # comes a number from 1 to 5", item)
		}
		return func(t time.Time) bool { return int(t.Weekday()) == day%7 && (t.Day()-1)/7 == n-1 }, nil
	}
	set, err := parts[5].parse(item)
	if err == nil && has(set, 7) { // Sunday, too
		set[0] |= 1
	}
	return func(t time.Time) bool { return has(set, int(t.Weekday())) }, err
}

func lastDay(t time.Time) int { return time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() }

// closestWeekday returns the day from Monday to Friday in the month of t that is closest to the given day.
func closestWeekday(t time.Time, day int) int {
	switch time.Date(t.Year(), t.Month(), day, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == lastDay(t) {
			return day - 2
		}
		return day + 1
	}
	return day
}

func (x extended) isDay(t time.Time) bool {
	holds := func(list []func(time.Time) bool) bool {
		for _, f := range list {
			if f(t) {
				return true
			}
		}
		return false
	}
	switch {
	case x.monthDay == nil && x.weekDay == nil:
		return true
	case x.monthDay == nil:
		return holds(x.weekDay)
	case x.weekDay == nil:
		return holds(x.monthDay)
	}
	return holds(x.monthDay) || holds(x.weekDay)
}

// Next implements cron.Schedule.
func (x extended) Next(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second).Add(time.Second)
	clock := t.Hour()*3600 + t.Minute()*60 + t.Second()
	for day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC); day.Year() <= parts[6].max; clock = 0 {
		switch {
		case day.Year() < parts[6].min || !has(x.year, day.Year()-parts[6].min):
			day = time.Date(day.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)
		case !has(x.month, int(day.Month())-1):
			day = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		default:
			if x.isDay(day) {
				if at, ok := x.clock(clock); ok {
					return day.Add(time.Duration(at) * time.Second)
				}
			}
			day = day.AddDate(0, 0, 1)
		}
	}
	return time.Time{}
}

// clock returns the first scheduled time of day, in seconds, that is not before from.
func (x extended) clock(from int) (int, bool) {
	for h := from / 3600; h < 24; h++ {
		if !has(x.hour, h) {
			continue
		}
		minute, second := 0, 0
		if h == from/3600 {
			minute, second = from/60%60, from%60
		}
		for ; minute < 60; minute, second = minute+1, 0 {
			if !has(x.minute, minute) {
				continue
			}
			if rest := x.second[0] >> second; rest != 0 {
				return h*3600 + minute*60 + second + bits.TrailingZeros64(rest), true
			}
		}
	}
	return 0, false
}
