package observe

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// DefaultMaxSeries is the default maximum number of series of an instrument. A series of a histogram takes a kilobyte of memory.
const DefaultMaxSeries = 10_000

// other is the value of open labels in overflow series.
const other = "other"

// longest is the maximum length of the value of a label, in bytes.
const longest = 256

// separator ends each value in a key. It does not occur in valid UTF-8.
const separator = 0xFF

// family is one instrument and its series.
//
// It is not a vector of client_golang. The page of a vector takes 1.8 × the time and 5 × the memory, because it exists as a whole before it is
// written; a result takes 21 × the time (BenchmarkEvaluated, BenchmarkVectors), or 1.05 × with the series cached by rule as in resultCache. A
// vector has no bound for its series, and keeps its labels and buckets as long as the process runs.
type family struct {
	*Instrument
	open  []bool
	state atomic.Pointer[state]
	// overflow is called for every observation that is counted in an overflow series; nil for none.
	overflow func()
	// collect sets the values of a gauge when it is scraped; nil for instruments that store their numbers.
	collect func(set func(value float64, values ...string))
}

// state is a family with one configuration. Each configuration starts with a new state and new counts.
type state struct {
	setup
	began  time.Time
	mu     sync.RWMutex
	series map[string]*series
}

// setup is the configuration of a family.
type setup struct {
	off    bool
	bare   bool
	keep   []bool // for each label, whether it is kept
	bounds []float64
	max    int
}

func (s *setup) equal(o *setup) bool {
	return s.off == o.off && s.bare == o.bare && s.max == o.max && slices.Equal(s.keep, o.keep) && slices.Equal(s.bounds, o.bounds)
}

// series is one set of labels and its numbers. A nil *series ignores all calls.
type series struct {
	count atomic.Uint64
	// sum holds the bits of a float64: the value of a gauge, or the sum of a histogram.
	sum     atomic.Uint64
	bounds  []float64
	buckets []atomic.Uint64 // one more element than bounds
	// others: this is an overflow series.
	others   bool
	overflow func()
}

func newFamily(i *Instrument) *family {
	f := &family{Instrument: i, open: make([]bool, len(i.Labels))}
	for k, l := range i.Labels {
		_, f.open[k] = cutMark(l)
	}
	return f
}

// configure applies a setup, unless it is the current one.
func (f *family) configure(s setup) {
	if old := f.state.Load(); old == nil || !old.equal(&s) {
		f.state.Store(&state{setup: s, began: time.Now(), series: map[string]*series{}})
	}
}

// reset removes all series.
func (f *family) reset() {
	f.state.Store(&state{setup: f.state.Load().setup, began: time.Now(), series: map[string]*series{}})
}

// with returns the series with these label values, which are in order of declaration. It allocates memory only for a new series.
func (f *family) with(values ...string) *series {
	return f.state.Load().with(f, values)
}

func (st *state) with(f *family, values []string) *series {
	if st.off {
		return nil
	}
	var room [512]byte
	key := st.appendKey(room[:0], values)
	st.mu.RLock()
	s := st.series[string(key)]
	st.mu.RUnlock()
	if s == nil {
		s = st.create(f, values)
	}
	return s
}

func (st *state) appendKey(b []byte, values []string) []byte {
	for k, v := range values {
		if st.keep[k] {
			b = append(append(b, v...), separator)
		}
	}
	return b
}

// create adds the series, or returns the overflow series.
func (st *state) create(f *family, values []string) *series {
	clean := make([]string, len(values))
	for k, v := range values {
		clean[k] = cleanValue(v)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	key := string(st.appendKey(nil, clean))
	if s := st.series[key]; s != nil {
		return s
	}
	others := false
	if len(st.series) >= st.max && slices.Contains(f.open, true) {
		// The open labels become "other". The others keep their values, of which there are only a few, so that sums by these labels stay correct.
		for k := range clean {
			if f.open[k] {
				clean[k], others = other, true
			}
		}
		key = string(st.appendKey(nil, clean))
		if s := st.series[key]; s != nil {
			return s
		}
		if len(st.series) >= 2*st.max {
			return nil // cannot happen while each closed label has few values
		}
	}
	s := &series{others: others, overflow: f.overflow}
	if f.Kind == Histogram {
		s.bounds, s.buckets = st.bounds, make([]atomic.Uint64, len(st.bounds)+1)
	}
	st.series[key] = s
	return s
}

// cleanValue returns a value that can be written: valid UTF-8 of limited length.
func cleanValue(v string) string {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, "�")
	}
	if len(v) > longest {
		v = strings.ToValidUTF8(v[:longest], "")
	}
	return v
}

// add adds n to a counter.
func (s *series) add(n uint64) {
	if s == nil {
		return
	}
	s.count.Add(n)
	s.countOverflow()
}

// set sets a gauge.
func (s *series) set(v float64) {
	if s != nil {
		s.sum.Store(math.Float64bits(v))
	}
}

// observe adds v to a histogram.
func (s *series) observe(v float64) {
	if s == nil {
		return
	}
	i := 0
	for i < len(s.bounds) && v > s.bounds[i] {
		i++
	}
	s.buckets[i].Add(1)
	s.count.Add(1)
	for {
		old := s.sum.Load()
		if s.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			break
		}
	}
	s.countOverflow()
}

// countOverflow counts an observation in an overflow series.
func (s *series) countOverflow() {
	if s.others && s.overflow != nil {
		s.overflow()
	}
}

// row is a series with its key, for writers.
type row struct {
	key string
	*series
}

// rows returns the series, sorted by key. It collects the values of a gauge that is set when it is scraped.
func (f *family) rows() (*state, []row) {
	st := f.state.Load()
	if f.collect != nil && !st.off {
		st = &state{setup: st.setup, series: map[string]*series{}}
		f.collect(func(v float64, values ...string) { st.with(f, values).set(v) })
	}
	st.mu.RLock()
	rows := make([]row, 0, len(st.series))
	for key, s := range st.series {
		rows = append(rows, row{key, s})
	}
	st.mu.RUnlock()
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	return st, rows
}

// split splits a key into its values.
func split(into []string, key string) []string {
	into = into[:0]
	for {
		i := strings.IndexByte(key, separator)
		if i < 0 {
			return into
		}
		into, key = append(into, key[:i]), key[i+1:]
	}
}
