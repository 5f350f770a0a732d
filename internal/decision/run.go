package decision

import (
	"context"
	"errors"
	"time"
)

// Limits of batches.
const (
	batchRecords = 128
	batchDelay   = time.Second
	writeTimeout = 10 * time.Second
	// endTimeout bounds the writing of the last records.
	endTimeout = 2 * writeTimeout
	// mostRecords is the number of records that may wait while a batch is written. They take less memory than reviews.
	mostRecords = 6 * batchRecords
	// batchBytes bounds the texts and recorded requests of a batch, in bytes. Those of one review may be larger.
	batchBytes = 8 << 20
	// wakeReviews is the number of reviews that wake Run: waking a goroutine for each review would cost more than making its record.
	wakeReviews = 32
)

// batch is reusable memory for records and their results.
type batch struct {
	records []Record
	rules   []Result // of all records
	bytes   int64    // of the texts and recorded requests
}

// empty removes the records. It does not keep the memory of a batch that grew while another one was written.
func (b *batch) empty() {
	if cap(b.records) > 2*batchRecords {
		*b = batch{}
		return
	}
	clear(b.records) // so that the garbage collector can free the texts
	clear(b.rules)
	b.records, b.rules, b.bytes = b.records[:0], b.rules[:0], 0
}

// Run writes records until ctx is done, and then writes the waiting ones for a limited time. While a batch is written, it makes the records of
// the next one.
func (f *Feed) Run(ctx context.Context) {
	if f == nil {
		return
	}
	go TidyRegularly(ctx, f.Store, f.Log)
	whole, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	write, written := make(chan *batch), make(chan *batch, 1)
	go func() {
		for b := range write {
			f.write(whole, b.records)
			b.empty()
			written <- b
		}
	}()
	defer close(write)
	tick := time.NewTicker(batchDelay)
	defer tick.Stop()
	var over <-chan time.Time // when the store has had its time to end
	other, due, sent := &batch{}, false, 0
	for ending := false; !ending || other == nil || len(f.batch.records)+len(f.queue) > 0; {
		switch {
		case ending && other == nil:
			select {
			case other = <-written:
			case <-over:
				n := sent + len(f.batch.records) + len(f.queue)
				f.Log.Error("the store of decisions does not answer: the last decisions are lost", "records", n)
				f.drop(n)
				return
			}
		case !ending:
			select {
			case <-f.wake:
			case b := <-written:
				other = b
			case <-tick.C:
				due = true
			case <-ctx.Done():
				ending, over = true, time.After(endTimeout+batchDelay)
				time.AfterFunc(endTimeout, stop)
			}
		}
		f.collect(ctx)
		if n := len(f.batch.records); other != nil && (n >= batchRecords || f.batch.bytes >= batchBytes || n > 0 && (due || ending)) {
			sent = n
			write <- f.batch
			f.batch, other, due = other, nil, false
		}
	}
	if err := f.Store.Close(); err != nil {
		f.Log.Error("the store of decisions was not closed", "error", err)
	}
}

// collect makes the records of the waiting reviews.
func (f *Feed) collect(ctx context.Context) {
	for len(f.batch.records) < mostRecords && f.batch.bytes < batchBytes {
		select {
		case k := <-f.queue:
			r := f.record(ctx, k)
			f.batch.records = append(f.batch.records, r)
			if r.Request != nil {
				f.batch.bytes += k.size
			} else {
				f.batch.bytes += k.texts
			}
			f.waiting.Add(-k.size)
		default:
			return
		}
	}
}

// write stores records.
func (f *Feed) write(ctx context.Context, records []Record) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := f.Store.Write(ctx, records); err != nil {
		n := len(records)
		var partly *PartlyStored
		if errors.As(err, &partly) {
			n = min(partly.Lost, len(records))
		}
		f.Log.Error("decisions were not stored", "records", n, "error", err)
		f.drop(n)
		records = records[:len(records)-n]
	}
	for i := range records {
		f.Observer.DecisionKept(string(records[i].Verdict))
	}
}
