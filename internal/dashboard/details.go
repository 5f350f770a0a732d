package dashboard

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/value"
)

// The limits for reading and showing one page of single results.
const (
	pageEntries   = 25  // resources
	pageResults   = 200 // more results of one resource are cut off
	readsAtOnce   = 5
	detailsAtOnce = 4 // pages
	maxMessage    = 8 << 10
	maxProperties = 30
	maxProperty   = 1 << 10
)

// lastSecond is the end of the year 9999, the last time that reports may have: a browser ends with an error for a much later one.
const lastSecond = 253402300799

// detail is a single result with its message.
type detail struct {
	compliance.Result
	Properties map[string]string `json:"properties,omitempty"`
	Seconds    int64             `json:"seconds,omitempty"` // when the result was found, in seconds since 1970; 0 if that is not known
}

// details are single results.
type details struct {
	Results []detail `json:"results"`
	Total   int      `json:"total"` // on all pages
	// Next is the position after these results, for the parameter after; nil if there are no more.
	Next *position `json:"next"`
}

// find reads the results of a query after a position (nil for the first page).
func (d *Dashboard) find(ctx context.Context, q *query, after *position) (*details, error) {
	found, total := d.index.find(q)
	if after != nil {
		found = found[min(len(found), indexAfter(found, *after)):]
	}
	out := &details{Results: []detail{}, Total: total}
	if len(found) > pageEntries {
		found = found[:pageEntries]
		last := found[len(found)-1].position()
		out.Next = &last
	}
	if len(found) == 0 {
		return out, nil
	}
	select {
	case d.details <- struct{}{}:
		defer func() { <-d.details }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	read := make([][]detail, len(found))
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(readsAtOnce)
	for i, e := range found {
		reading.Go(func() (err error) {
			read[i], err = d.read(ctx, e, q)
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	for _, results := range read {
		out.Results = append(out.Results, results...)
	}
	return out, nil
}

func indexAfter(found []*resourceResults, after position) int {
	i, same := slices.BinarySearchFunc(found, after, func(e *resourceResults, p position) int { return e.position().compare(p) })
	if same {
		i++
	}
	return i
}

// read returns the wanted results of one entry from its current report; none if the report was deleted.
func (d *Dashboard) read(ctx context.Context, e *resourceResults, q *query) ([]detail, error) {
	object, err := d.readerOf(e.report).get(ctx, e.report)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a report: %w", err)
	}
	list, _ := object["results"].([]any)
	var out []detail
	for _, one := range list {
		fields, _ := one.(map[string]any)
		object["results"] = []any{one} // one by one, to match properties with their results
		decoded, _ := compliance.Decode(object)
		for i := range decoded.Results {
			r := &decoded.Results[i]
			if !e.about(r.Resource) || !q.wants(r) {
				continue
			}
			if len(out) == pageResults {
				return out, nil
			}
			out = append(out, detailOf(r, fields))
		}
	}
	return out, nil
}

func detailOf(r *compliance.Result, fields map[string]any) detail {
	d := detail{Result: *r}
	d.Message = value.Clip(d.Message, maxMessage)
	timestamp, _ := fields["timestamp"].(map[string]any)
	if seconds, _ := timestamp["seconds"].(float64); seconds > 0 && seconds <= lastSecond {
		d.Seconds = int64(seconds)
	}
	properties, _ := fields["properties"].(map[string]any)
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		if len(d.Properties) == maxProperties {
			break
		}
		if text, ok := properties[k].(string); ok {
			if d.Properties == nil {
				d.Properties = map[string]string{}
			}
			d.Properties[value.Clip(k, maxName)] = value.Clip(text, maxProperty)
		}
	}
	return d
}

// answerDetails answers a request for single results.
func (d *Dashboard) answerDetails(r *http.Request) (any, error) {
	q, err := d.query(r, "after")
	if err != nil {
		return nil, err
	}
	after, err := parsePosition(r.URL.Query().Get("after"))
	if err != nil {
		return nil, err
	}
	return d.find(r.Context(), q, after)
}
