package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// store holds the samples of all pages in memory.
type store struct {
	series map[string]*series // by labels
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// add stores a page as the scraper of Prometheus would, with the labels job and instance. Two lines for one series are
// an error, because Prometheus would keep only one of them.
func (s *store) add(job string, page []byte, at time.Time) error {
	if s.series == nil {
		s.series = map[string]*series{}
	}
	parser, err := textparse.New(page, "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := parser.Series()
		var own labels.Labels
		parser.Labels(&own)
		builder := labels.NewBuilder(own)
		builder.Set("job", job).Set("instance", job+"-1")
		all := builder.Labels()
		key := all.String()
		one := s.series[key]
		if one == nil {
			one = &series{labels: all}
			s.series[key] = one
		}
		if n := len(one.samples); n > 0 && one.samples[n-1].T() == at.UnixMilli() {
			return fmt.Errorf("the series is there twice: %s", key)
		}
		one.samples = append(one.samples, sample{at.UnixMilli(), value})
	}
}

// Querier implements storage.Queryable.
func (s *store) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{s, mint, maxt}, nil
}

type querier struct {
	*store
	mint, maxt int64
}

// Select implements storage.Querier.
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
next:
	for _, s := range q.series {
		for _, m := range matchers {
			if !m.Matches(s.labels.Get(m.Name)) {
				continue next
			}
		}
		var within []chunks.Sample
		for _, v := range s.samples {
			if v.T() >= q.mint && v.T() <= q.maxt {
				within = append(within, v)
			}
		}
		if len(within) > 0 {
			found = append(found, storage.NewListSeries(s.labels, within))
		}
	}
	sort.Slice(found, func(i, j int) bool { return labels.Compare(found[i].Labels(), found[j].Labels()) < 0 })
	return &set{series: found, at: -1}
}

// set implements storage.SeriesSet.
type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

// LabelValues, LabelNames and Close implement storage.Querier; the engine only requests series.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) Close() error { return nil }
