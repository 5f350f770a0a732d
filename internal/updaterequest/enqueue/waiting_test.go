package enqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/policy"
)

// The number of UpdateRequests is known from the start, and is updated until there are none.
func TestCountedFromTheStart(t *testing.T) {
	s := &store{objects: map[string]*kyvernov2.UpdateRequest{"ur-1": {}, "ur-2": {}}}
	w, _, counts := writer(s, 0)
	if _, err := w.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if counts.existing != 2 {
		t.Errorf("at the start: %d", counts.existing)
	}
	for _, step := range []struct {
		there []string
		want  int
		why   string
	}{
		{[]string{"ur-1"}, 1, "a controller executes them"},
		{nil, 0, "all are executed"},
		{[]string{"ur-3"}, 0, "no caller waits: the next write counts"},
	} {
		clear(s.objects)
		for _, name := range step.there {
			s.objects[name] = &kyvernov2.UpdateRequest{}
		}
		if w.recount(t.Context()); counts.existing != step.want {
			t.Errorf("%s: %d, want %d", step.why, counts.existing, step.want)
		}
	}
}

// T24: a waiting UpdateRequest holds no part of the text of its review, which is larger than what is counted.
func TestT24WaitingRequestsHoldNoReview(t *testing.T) {
	review := strings.Repeat("x", 1<<20)
	of := func(part string) bool {
		at, first := uintptr(unsafe.Pointer(unsafe.StringData(part))), uintptr(unsafe.Pointer(unsafe.StringData(review)))
		return at >= first && at < first+uintptr(len(review))
	}
	w, _, _ := writer(&store{down: errors.New("the API server is away")}, 0)
	req := request(policy.Create, "u")
	req.Name, req.UID, req.User = review[:5], review[:6], &policy.User{Username: review[:7], Groups: []string{review[:8]}, Extra: map[string][]string{review[:9]: {review[:10]}}}
	w.Write(t.Context(), req, generate(0))
	if w.Waiting() != 1 {
		t.Fatal("nothing waits")
	}
	for name, x := range w.waiting {
		info := x.object.Spec.Context.AdmissionRequestInfo.AdmissionRequest
		user := info.UserInfo
		for key, values := range user.Extra {
			if of(key) || of(values[0]) {
				t.Error("the data of the user are a part of the review")
			}
		}
		if of(name) || of(x.object.Name) || of(info.Name) || of(string(info.UID)) || of(user.Username) || of(user.Groups[0]) || of(x.object.Spec.Resource.Name) {
			t.Error("a name is a part of the review")
		}
		if x.bytes < len(info.Object.Raw) {
			t.Errorf("%d bytes are counted", x.bytes)
		}
	}
}

// silent is an API server that does not answer.
type silent struct{ *store }

func (silent) Create(ctx context.Context, _ *kyvernov2.UpdateRequest) error {
	<-ctx.Done()
	return ctx.Err()
}

// Requests for the same work do not wait for each other while the API server does not answer: each is answered in its own time, and keeps its
// own work.
func TestRequestsOfOneTriggerWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := writer(&store{}, 1000)
		w.API = silent{&store{}}
		began := time.Now()
		var running sync.WaitGroup
		for i := range 5 {
			running.Go(func() {
				req := request(policy.Update, "u1")
				req.UID = fmt.Sprint("review-", i)
				w.Write(t.Context(), req, generate(0))
			})
		}
		running.Wait()
		if took := time.Since(began); took > writeTime {
			t.Errorf("the last of 5 requests waited %s, want at most %s", took, writeTime)
		}
		if w.Waiting() == 0 {
			t.Error("no work waits")
		}
	})
}
