package enqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/updaterequest"
)

// Waiting returns the number of UpdateRequests that are not written yet.
func (w *Writer) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// takeWaiting removes the waiting UpdateRequest of that name and returns it, or nil if there is none.
func (w *Writer) takeWaiting(name string) *plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.waiting[name]
	if x == nil {
		return nil
	}
	delete(w.waiting, name)
	w.bytes -= x.bytes
	return &x.plan
}

// waitsFor returns the waiting UpdateRequest of that name, nil if there is none.
func (w *Writer) waitsFor(name string) *kyvernov2.UpdateRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.waiting[name]; x != nil {
		return x.object
	}
	return nil
}

// putBack adds the plan to the waiting ones. It returns false if there is no room. What waits is a copy: the names in an UpdateRequest are
// parts of the text of the review, which is larger than what is counted.
func (w *Writer) putBack(p plan) bool {
	text, err := json.Marshal(p.object)
	if err != nil {
		return false
	}
	p.object = &kyvernov2.UpdateRequest{}
	if err := json.Unmarshal(text, p.object); err != nil {
		return false
	}
	x := &waiting{plan: p, bytes: 1<<10 + len(text)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) >= maxWaiting || w.bytes+x.bytes > maxWaitingBytes {
		return false
	}
	w.waiting[p.object.Name] = x
	w.bytes += x.bytes
	if w.Wake != nil {
		w.Wake()
	}
	return true
}

// names returns the names of the waiting UpdateRequests, sorted, beginning after the last that was tried without success.
func (w *Writer) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]string, 0, len(w.waiting))
	for name := range w.waiting {
		out = append(out, name)
	}
	slices.Sort(out)
	at, _ := slices.BinarySearch(out, w.tried+"\x00")
	return slices.Concat(out[at:], out[:at])
}

// Reconcile writes the waiting UpdateRequests, and returns when to call it again without news.
func (w *Writer) Reconcile(ctx context.Context) (time.Duration, error) {
	w.recount(ctx)
	return recountEvery, w.flush(ctx)
}

// End waits for the end of ctx, and then writes what waits for a few more seconds, because no other process can write it.
func (w *Writer) End(ctx context.Context) {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	err := w.flush(last)
	if n := w.Waiting(); n > 0 {
		w.Log.Error("stopped with work that was not stored", "updateRequests", n, "error", err)
	}
}

// flush tries to write all waiting UpdateRequests, and fails if some remain. It stops at the first failure that may concern all of them, and
// after 16 others; the next flush begins behind those. It drops those that the API server rejects as invalid.
func (w *Writer) flush(ctx context.Context) error {
	written, lost, denied := 0, 0, 0
	var refusal error
	defer func() {
		left := w.Waiting()
		if left == 0 {
			w.failures.Store(0)
		}
		if w.Observer != nil {
			w.Observer.UpdateRequestsWaiting(left)
		}
		if written+lost > 0 {
			w.Log.Info("wrote waiting UpdateRequests", "number", written, "refused", lost, "left", left)
		}
	}()
	for _, name := range w.names() {
		switch err := w.retry(ctx, name); {
		case err == nil:
			written++
		case refused(err):
			lost++
			w.Log.Error("the API server rejected an UpdateRequest: its work is lost", "name", name, "error", err)
		default:
			w.mu.Lock()
			w.tried = name
			w.mu.Unlock()
			if denied++; ofOne(err) && denied < maxDenied {
				refusal = err
				continue
			}
			return fmt.Errorf("%d UpdateRequests wait to be written: %w", w.Waiting(), err)
		}
	}
	if denied > 0 {
		return fmt.Errorf("%d UpdateRequests wait to be written, of which the API server denied %d: %w", w.Waiting(), denied, refusal)
	}
	return nil
}

// retry writes one waiting UpdateRequest. During the write it removes it from the waiting ones, so that a request for the same work waits
// only for the lock of the name.
func (w *Writer) retry(ctx context.Context, name string) error {
	unlock, err := w.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	p := w.takeWaiting(name)
	if p == nil {
		return nil // a request has written it meanwhile
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	err = w.write(ctx, *p)
	switch {
	case refused(err):
		w.record(p.program, updaterequest.Reference(p.object.Spec.Resource), "its work is lost: "+err.Error())
	case err != nil && !w.putBack(*p): // requests took its place meanwhile
		w.Log.Error("an UpdateRequest could not be written, and too many wait: its work is lost", "name", name, "error", err)
		w.record(p.program, updaterequest.Reference(p.object.Spec.Resource), "its work is lost, since too many UpdateRequests are waiting: "+err.Error())
	}
	return err
}
