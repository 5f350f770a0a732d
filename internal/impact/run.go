package impact

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world/taped"
)

// batchSize is the number of records that a worker takes at once.
const batchSize = 32

// batch is a run of records that one worker evaluates.
type batch struct {
	records []Record
	done    chan []Evaluated
}

// Run evaluates records by the policies of after, and of before unless it is nil, and counts the verdicts.
func Run(ctx context.Context, records iter.Seq[Record], after, before *Replica, c *Collector) error {
	return Each(ctx, records, after, before, c.Add)
}

// Each evaluates records on all processors, and passes the results to add one by one, in the order of the records.
func Each(ctx context.Context, records iter.Seq[Record], after, before *Replica, add func(*Evaluated)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	workers, reads := runtime.GOMAXPROCS(0), reading(after, before)
	work := make(chan *batch, workers)
	order := make(chan *batch, 2*workers)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for b := range work {
				out := make([]Evaluated, len(b.records))
				for i := range b.records {
					out[i] = evaluate(ctx, b.records[i], after, before, reads)
				}
				b.done <- out
			}
		})
	}
	running.Go(func() {
		defer close(order)
		defer close(work)
		next := &batch{done: make(chan []Evaluated, 1)}
		emit := func() bool {
			select {
			case order <- next:
			case <-ctx.Done():
				return false
			}
			work <- next
			next = &batch{done: make(chan []Evaluated, 1)}
			return true
		}
		for r := range records {
			if next.records = append(next.records, r); len(next.records) == batchSize && !emit() {
				return
			}
		}
		if len(next.records) > 0 {
			emit()
		}
	})
	for b := range order {
		for _, e := range <-b.done {
			add(&e)
		}
	}
	running.Wait()
	return ctx.Err()
}

func evaluate(ctx context.Context, r Record, after, before *Replica, reads func(*policy.Request) *value.Fields) (e Evaluated) {
	e.Record = r
	if e.Request, e.Err = e.Record.request(reads); e.Err != nil {
		return e
	}
	if r.Decision != nil {
		pointers := r.Decision.Request.Cut
		unknown, assumed := after.ReadsCut(e.Request, pointers)
		if before != nil && !unknown {
			unknown, e.Assumed = before.ReadsCut(e.Request, pointers)
		}
		if e.Assumed = e.Assumed || assumed; unknown {
			e.Err = ErrCut
			return e
		}
	}
	e.Before.Allowed = true
	if before != nil { // lookups are attached to a request, so each Replica needs a separate copy
		on := e.Request.WithObject(e.Request.Object)
		if e.Before, e.Err = before.answerTaped(ctx, &e, on); e.Err != nil {
			return e
		}
	}
	e.After, e.Err = after.answerTaped(ctx, &e, e.Request)
	return e
}

// answerTaped is Answer with the recorded lookups of the request, if there are any.
func (r *Replica) answerTaped(ctx context.Context, e *Evaluated, req *policy.Request) (Verdict, error) {
	if len(e.Record.Lookups) > 0 {
		req.Tape = decision.Tape(e.Record.Lookups, e.Record.Time, r.options.Live)
	}
	v, err := r.Answer(ctx, req)
	e.Lived = e.Lived || req.Tape.Lived()
	if missing := req.Tape.Missing(); len(missing) > 0 && err == nil {
		return v, &NotRecordedError{missing}
	}
	return v, err
}

// NotRecordedError reports lookups of rules whose answers are not recorded.
type NotRecordedError struct{ Missing []taped.Miss }

func (e *NotRecordedError) Error() string {
	first := e.Missing[0]
	return fmt.Sprintf("the answer to the lookup %s %s is not recorded: %s", first.Method, first.Asked, first.Why)
}
