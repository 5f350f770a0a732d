package decision

import (
	"context"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ephor-dev/ephor/internal/policy"
)

// Store keeps records. Its methods are called by one goroutine.
type Store interface {
	// Write stores records, all or none as far as it can. It returns soon after ctx is done.
	Write(ctx context.Context, records []Record) error
	// Close ends the store; nothing is written afterwards.
	Close() error
}

// Keep says which reviews are kept besides those that are not simply passed.
type Keep struct {
	// Share is the share of passed reviews, from 0 to 1. By is that of reviews for which a policy has a result, by the policy's key; the largest counts.
	Share float64
	By    map[string]float64
}

// share is the share of passed reviews with these results.
func (k *Keep) share(results []policy.Result) float64 {
	if len(k.By) == 0 {
		return k.Share
	}
	share, named := 0.0, false
	for i := range results {
		if s, ok := k.By[results[i].Program.Key()]; ok {
			share, named = max(share, s), true
		}
	}
	if named {
		return share
	}
	return k.Share
}

// Observer counts records.
type Observer interface {
	// DecisionKept is called for each record that was stored, DecisionsDropped for those that were not.
	DecisionKept(verdict string)
	DecisionsDropped(n int)
}

// Options say what a Feed keeps, and where.
type Options struct {
	Store Store
	Keep  Keep
	// Capacity is how many reviews may wait to be written.
	Capacity int
	// OmitUsers leaves the names and groups of users out.
	OmitUsers bool
	Observer  Observer
	Log       *slog.Logger
}

// Feed takes reviews and stores their records. The nil Feed takes nothing.
type Feed struct {
	Options
	queue   chan kept
	dropped atomic.Uint64
}

// kept is a review that is to be recorded.
type kept struct {
	Review
	verdict Verdict
	share   float64
}

// Limits of a batch.
const (
	batchRecords = 256
	batchDelay   = time.Second
	writeTimeout = 10 * time.Second
)

// NewFeed returns a Feed.
func NewFeed(o Options) *Feed {
	return &Feed{Options: o, queue: make(chan kept, max(o.Capacity, 1))}
}

// Put takes a review. It never blocks: where the queue is full, the review is dropped and counted.
func (f *Feed) Put(r Review) {
	if f == nil {
		return
	}
	k := kept{Review: r, verdict: r.verdict(), share: 1}
	if k.verdict == Passed {
		if len(r.Results) == 0 {
			return // no rule was for the request
		}
		if k.share = f.Keep.share(r.Results); k.share <= 0 || k.share < 1 && rand.Float64() >= k.share {
			return
		}
	}
	select {
	case f.queue <- k:
	default:
		f.drop(1)
	}
}

// drop counts records that are lost.
func (f *Feed) drop(n int) {
	f.Observer.DecisionsDropped(n)
	before := f.dropped.Load()
	if now := f.dropped.Add(uint64(n)); before == 0 || now/1000 != before/1000 {
		f.Log.Warn("decisions were not recorded", "dropped", now)
	}
}

// Run writes records until ctx is done, and then those that wait, for a limited time.
func (f *Feed) Run(ctx context.Context) {
	if f == nil {
		return
	}
	defer func() {
		if err := f.Store.Close(); err != nil {
			f.Log.Error("the store of decisions was not closed", "error", err)
		}
	}()
	batch := make([]Record, 0, batchRecords)
	tick := time.NewTicker(batchDelay)
	defer tick.Stop()
	for {
		select {
		case k := <-f.queue:
			if batch = append(batch, f.record(&k)); len(batch) == batchRecords {
				batch = f.write(batch)
			}
		case <-tick.C:
			batch = f.write(batch)
		case <-ctx.Done():
			for len(f.queue) > 0 {
				k := <-f.queue
				if batch = append(batch, f.record(&k)); len(batch) == batchRecords {
					batch = f.write(batch)
				}
			}
			f.write(batch)
			return
		}
	}
}

// write stores a batch, and returns it empty.
func (f *Feed) write(batch []Record) []Record {
	if len(batch) == 0 {
		return batch
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if err := f.Store.Write(ctx, batch); err != nil {
		f.Log.Error("decisions were not stored", "records", len(batch), "error", err)
		f.drop(len(batch))
		return batch[:0]
	}
	for i := range batch {
		f.Observer.DecisionKept(string(batch[i].Verdict))
	}
	return batch[:0]
}

// record makes the record of a review.
func (f *Feed) record(k *kept) Record {
	req := k.Request
	r := Record{
		Schema: Schema, Time: k.At.UTC(), Duration: k.Took, UID: req.UID, Webhook: k.Webhook, Operation: string(req.Operation),
		Group: req.RequestGVK.Group, Version: req.RequestGVK.Version, Kind: req.RequestGVK.Kind, Subresource: req.Subresource,
		Namespace: req.Namespace, Name: nameOf(req), DryRun: req.DryRun, Verdict: k.verdict, Allowed: k.Allowed, Share: k.share,
		Policies: hex.EncodeToString(k.Policies[:]),
	}
	if u := req.User; u != nil && !f.OmitUsers {
		r.User, r.Groups = u.Username, u.Groups
	}
	hidden := secrets(req)
	if !k.Allowed {
		r.Message = withoutSecrets(k.Message, hidden)
	}
	for i := range k.Results {
		x := &k.Results[i]
		r.Rules = append(r.Rules, Result{
			Policy: x.Program.Key(), Rule: x.Rule.Name, Status: x.Status.String(), Action: x.Action.String(), Message: withoutSecrets(x.Message, hidden),
			Path: withoutSecrets(x.Path, hidden), Exceptions: policy.ExceptionKeys(x.Exceptions), Duration: x.Elapsed,
		})
	}
	return r
}

// nameOf is the name of the object; of one that gets its name later, the prefix with a star.
func nameOf(req *policy.Request) string {
	if req.Name != "" {
		return req.Name
	}
	object, _ := req.Object.Map()
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if prefix, _ := metadata["generateName"].(string); name == "" && prefix != "" {
		name = prefix + "*"
	}
	return strings.Clone(name)
}
