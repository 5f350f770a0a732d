package decision

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Store keeps records. Its methods are called by one goroutine.
type Store interface {
	// Write stores records: all or none, if the store can do so. It returns soon after ctx is done. The caller reuses the records and their
	// lists afterwards.
	Write(ctx context.Context, records []Record) error
	// Close closes the store; Write is not called afterwards.
	Close() error
}

// Lost collects the errors of parts of a batch. Its Err is the error that Write returns if only some records were stored.
type Lost struct {
	n    int
	errs []error
}

// Add adds n records that were not stored.
func (l *Lost) Add(n int, err error) {
	var inner *PartlyStored
	if errors.As(err, &inner) {
		n = inner.Lost
	}
	l.n, l.errs = l.n+n, append(l.errs, err)
}

// Err returns nil if nothing is lost.
func (l *Lost) Err() error {
	if l.n == 0 {
		return nil
	}
	return &PartlyStored{Lost: l.n, Err: errors.Join(l.errs...)}
}

// PartlyStored is the error of a Store that kept only some records of a batch.
type PartlyStored struct {
	Lost int
	Err  error
}

// Error implements error.
func (e *PartlyStored) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *PartlyStored) Unwrap() error { return e.Err }

// Keep sets which passed reviews are kept. All others are kept in any case.
type Keep struct {
	// Share is the share of passed reviews, from 0 to 1. By has the shares of reviews for which a policy has a result, by the policy's key; the
	// largest one applies.
	Share float64
	By    map[string]float64
}

// sampleRate returns the share of passed reviews with these results that is kept.
func (k *Keep) sampleRate(results []policy.Result) float64 {
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
	// DecisionKept counts a record that was stored, DecisionsDropped counts records that were not.
	DecisionKept(verdict string)
	DecisionsDropped(n int)
}

// Options configures what a Feed keeps, and where.
type Options struct {
	Store Store
	Keep  Keep
	// Capacity is the number of reviews that may wait to be written.
	Capacity int
	// Users sets how users are recorded.
	Users Users
	// Digests makes the digests of a record; nil for none.
	Digests Digests
	// Cluster is the name of the cluster; empty for none.
	Cluster string
	// Requests records the requests themselves.
	Requests bool
	// Redaction selects the values that are cut from requests, and from messages about them; nil cuts only the values of Secrets.
	Redaction *Redaction
	Observer  Observer
	Log       *slog.Logger
}

// Users is the way in which the names and groups of users are recorded.
type Users string

// The ways: as they are, as keyed digests (so that records of one user can be found together), and not at all.
const (
	NameUsers Users = "true"
	HashUsers Users = "hash"
	OmitUsers Users = "false"
)

// Digests makes digests with a key of the installation. A short text, such as a Secret's value, could be guessed from a plain digest.
type Digests interface {
	// Digest returns the digest of a text; false while there is no key. The domain states what kind of text it is: the same text has different
	// digests in different domains.
	Digest(ctx context.Context, domain, text string) (digest [16]byte, ok bool)
}

// Feed takes reviews and stores their records. The nil Feed takes nothing.
type Feed struct {
	Options
	queue   chan *kept
	wake    chan struct{} // signals that the queue has enough reviews
	waiting atomic.Int64  // bytes of the reviews in the queue
	dropped atomic.Uint64
	// Used by Run only.
	known *parts
	batch *batch
}

// kept is a review that waits to be recorded. It holds texts instead of decoded objects, which take several times the memory.
type kept struct {
	Review
	verdict Verdict
	share   float64
	notes   *heldNotes
	size    int64 // in bytes, estimated
	texts   int64 // of size, in messages and paths
}

// lean returns the review in the form in which it waits.
func lean(r Review, verdict Verdict, share float64) *kept {
	req := r.Request
	r.Request = &policy.Request{Review: policy.Review{
		UID: req.UID, Operation: req.Operation, RequestGVK: req.RequestGVK, GVR: req.GVR, Subresource: req.Subresource, Asked: req.AskedFor(), Namespace: req.Namespace, Name: nameOf(req),
		Object: req.Object.Undecoded(), OldObject: req.OldObject.Undecoded(), User: req.User, DryRun: req.DryRun, Options: req.Options,
	}}
	if slices.ContainsFunc(r.Results, func(x policy.Result) bool { return x.Object != nil || x.Work != nil }) {
		r.Results = slices.Clone(r.Results)
		for i := range r.Results {
			r.Results[i].Object, r.Results[i].Work = nil, nil
		}
	}
	notes := holdNotes(req.Tape)
	const fixed, each = 2 << 10, 256 // of a review without objects, of a result
	texts := len(r.Message)
	for i := range r.Results {
		texts += len(r.Results[i].Message) + len(r.Results[i].Path)
	}
	return &kept{
		Review: r, verdict: verdict, share: share, notes: notes, texts: int64(texts),
		size: int64(fixed + len(req.Object.Text()) + len(req.OldObject.Text()) + len(r.Patch) + each*len(r.Results) + notes.bytes() + texts),
	}
}

// maxWaiting bounds the size of the waiting reviews, in bytes. One review may wait whatever its size.
const maxWaiting = 6 << 20

// NewFeed returns a Feed.
func NewFeed(o Options) *Feed {
	return &Feed{Options: o, queue: make(chan *kept, max(o.Capacity, 1)), wake: make(chan struct{}, 1), known: newParts(o.Requests), batch: &batch{}}
}

// Put takes a review. It never blocks: if the queue is full, it drops and counts the review.
func (f *Feed) Put(r Review) {
	if f == nil {
		return
	}
	verdict, share := r.verdict(), 1.0
	if verdict == Passed {
		if len(r.Results) == 0 {
			return // no rule applied to the request
		}
		if share = f.Keep.sampleRate(r.Results); share <= 0 || share < 1 && rand.Float64() >= share {
			return
		}
	}
	k := lean(r, verdict, share)
	if now := f.waiting.Add(k.size); now <= maxWaiting || now == k.size {
		select {
		case f.queue <- k:
			if len(f.queue) >= min(wakeReviews, cap(f.queue)) {
				select {
				case f.wake <- struct{}{}:
				default:
				}
			}
			return
		default:
		}
	}
	f.waiting.Add(-k.size)
	f.drop(1)
}

// drop counts lost records.
func (f *Feed) drop(n int) {
	f.Observer.DecisionsDropped(n)
	before := f.dropped.Load()
	if now := f.dropped.Add(uint64(n)); before == 0 || now/1000 != before/1000 {
		f.Log.Warn("decisions were not recorded", "dropped", now)
	}
}

// record returns the record of a review.
func (f *Feed) record(ctx context.Context, k *kept) Record {
	req := k.Request
	r := Record{
		Schema: Schema, Time: k.At.UTC(), Duration: k.Took, UID: req.UID, Webhook: k.Webhook, Operation: string(req.Operation),
		Group: req.RequestGVK.Group, Version: req.RequestGVK.Version, Kind: req.RequestGVK.Kind, Subresource: req.Subresource,
		Namespace: req.Namespace, Name: req.Name, DryRun: req.DryRun, Cluster: f.Cluster, Verdict: k.verdict, Allowed: k.Allowed, Share: k.share,
		Policies: f.digest(ctx, "policies", string(k.Policies[:])), Patch: f.digest(ctx, "patch", string(k.Patch)),
	}
	object := objectOf(req).Text()
	if sum, ok := f.sum(ctx, "object", object); ok {
		r.Object = hex.EncodeToString(sum[:])
		f.known.digested(object, sum)
	}
	if u := req.User; u != nil {
		r.User, r.Groups = f.user(ctx, u)
	}
	hidden := hiding(secrets(req), k.notes.hidden())
	if f.Requests || f.Redaction != nil {
		c, err := f.Redaction.copyOf(req, f.known)
		if err == nil && f.Requests {
			r.Request, err = requestOf(req, &c, f.Users == NameUsers)
		}
		if err != nil && !errors.Is(err, errLarge) {
			f.Log.Error("a request was not recorded", "uid", req.UID, "error", value.Message(err.Error()))
		}
		if r.Request != nil && k.notes != nil {
			if r.Request.Lookups, err = f.lookupsOf(k.notes, req, hiding(hidden, c.hidden), f.Users == NameUsers); err != nil {
				f.Log.Error("the lookups of a request were not recorded", "uid", req.UID, "error", value.Message(err.Error()))
			}
		}
		f.known.digested("", [16]byte{})
		hidden = hiding(hidden, c.hidden)
	}
	if !k.Allowed {
		r.Message = withoutSecrets(k.Message, hidden)
	}
	before := len(f.batch.rules)
	for i := range k.Results {
		x := &k.Results[i]
		one := Result{
			Policy: x.Program.Key(), Rule: x.Rule.Name, Status: x.Status.String(), Action: x.Action.String(), Duration: x.Elapsed,
			Message: withoutSecrets(x.Message, hidden), Path: withoutSecrets(x.Path, hidden),
		}
		if len(x.Exceptions) > 0 {
			one.Exceptions = policy.ExceptionKeys(x.Exceptions)
		}
		f.batch.rules = append(f.batch.rules, one)
	}
	if len(k.Results) > 0 {
		r.Rules = slices.Clip(f.batch.rules[before:])
	}
	return r
}

// sum returns the keyed digest of a text; false for the empty text, and while there is no key.
func (f *Feed) sum(ctx context.Context, domain, text string) (sum [16]byte, ok bool) {
	if f.Digests == nil || text == "" {
		return sum, false
	}
	return f.Digests.Digest(ctx, domain, text)
}

// digest returns the sum in hex; empty if there is none.
func (f *Feed) digest(ctx context.Context, domain, text string) string {
	sum, ok := f.sum(ctx, domain, text)
	if !ok {
		return ""
	}
	return hex.EncodeToString(sum[:])
}

// user returns the name and the groups that are recorded for a user.
func (f *Feed) user(ctx context.Context, u *policy.User) (name string, groups []string) {
	switch f.Users {
	case NameUsers:
		return u.Username, u.Groups
	case HashUsers:
		for _, g := range u.Groups {
			if sum := f.digest(ctx, "group", g); sum != "" {
				groups = append(groups, sum)
			}
		}
		return f.digest(ctx, "user", u.Username), groups
	}
	return "", nil
}

// objectOf returns the object of a request; for a deletion, the old object.
func objectOf(req *policy.Request) *value.Doc {
	if req.Object.Text() == "" {
		return req.OldObject
	}
	return req.Object
}

// nameOf returns the name of the object. If the API server generates the name later, it returns the prefix with a star.
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
