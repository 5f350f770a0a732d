package execute

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
)

// newer is the error of a write to an object that another client has changed.
func newer(o client.Object) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, o.GetName(), errors.New("it is newer"))
}

// failures is the row of a Worker (package controller) with the number of failures in a row.
type failures int

// attempt calls Reconcile once, and returns the pause before the next call.
func (f *failures) attempt(t *testing.T, w *Worker, name string) time.Duration {
	t.Helper()
	again, err := w.Reconcile(t.Context(), name)
	if err == nil {
		*f = 0
		return again
	}
	*f++
	return min(200*time.Millisecond<<min(*f-1, 10), 30*time.Second)
}

// run executes an UpdateRequest until there is no further attempt, and returns the number of attempts and the time they took.
func run(t *testing.T, w *Worker, name string, most int) (attempts int, took time.Duration) {
	t.Helper()
	began, row := time.Now(), failures(0)
	for again := time.Nanosecond; again > 0 && attempts < most; attempts++ {
		time.Sleep(again)
		again = row.attempt(t, w, name)
	}
	return attempts, time.Since(began)
}

// Conflicts with other writers are retried at once for some times, and then like other failures: with a growing pause, a status and an event.
func TestConflictsThatDoNotEnd(t *testing.T) {
	for name, c := range map[string]struct{ conflicts, most int }{"some": {3, 5}, "always": {1000, 20}} {
		synctest.Test(t, func(t *testing.T) {
			trigger := configMapOf("n", "there", "u1", triggers)
			w, events := newMarked(t, trigger)
			u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "CREATE", "u", trigger)
			writes := 0
			stored := withRequest(t, w, interceptor.Funcs{Create: func(ctx context.Context, x client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if writes++; writes <= c.conflicts {
					return newer(o)
				}
				return x.Create(ctx, o, opts...)
			}}, u, trigger)
			attempts, took := run(t, w, u.Name, c.most)
			left, ok := stored()
			switch {
			case name == "some" && (ok || events.has("error") || attempts != 4 || took > time.Second):
				t.Errorf("%s: %d attempts in %s, %+v, %q", name, attempts, took, left.Status, events.all)
			case name == "always" && (!ok || left.Status.State != kyvernov2.Failed || left.Status.Message == "" || !events.has("it is newer") || took < time.Minute || attempts == c.most):
				t.Errorf("%s: %d attempts in %s, %+v, %q", name, attempts, took, left.Status, events.all)
			}
		})
	}
}

// Conflicts of the writes to the UpdateRequest itself do not make the worker busy.
func TestConflictsOfTheUpdateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trigger := configMapOf("n", "there", "u1", triggers)
		w, _ := newMarked(t, trigger)
		u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "CREATE", "u", trigger)
		withRequest(t, w, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			return newer(o)
		}}, u, trigger)
		if attempts, took := run(t, w, u.Name, 100); took < time.Minute {
			t.Errorf("%d attempts in %s", attempts, took)
		}
	})
}

// While UpdateRequests cannot be read or written, the worker pauses longer and longer, and then does the work.
func TestRequestsThatCannotBeReadOrWritten(t *testing.T) {
	for _, what := range []string{"get", "delete", "status", "status conflicts"} {
		synctest.Test(t, func(t *testing.T) {
			trigger := configMapOf("n", "there", "u1", triggers)
			w, _ := newMarked(t, trigger)
			u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "CREATE", "u", trigger)
			calls, away, refused := 0, true, strings.HasPrefix(what, "status")
			answer := func(o client.Object, call string) error {
				if _, ok := o.(*kyvernov2.UpdateRequest); ok && call == what && away {
					calls++
					return errors.New("the API server is away")
				}
				return nil
			}
			stored := withRequest(t, w, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if err := answer(o, "get"); err != nil {
						return err
					}
					return c.Get(ctx, k, o, opts...)
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					if err := answer(o, "delete"); err != nil {
						return err
					}
					return c.Delete(ctx, o, opts...)
				},
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
					if err := answer(o, "status"); err != nil {
						return err
					}
					if err := answer(o, "status conflicts"); err != nil {
						return newer(o)
					}
					return c.SubResource(sub).Update(ctx, o, opts...)
				},
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if refused {
						return errors.New("no right")
					}
					return c.Create(ctx, o, opts...)
				},
			}, u, trigger)
			began, row := time.Now(), failures(0)
			for again := time.Nanosecond; again > 0 && time.Since(began) < 20*time.Minute; {
				if time.Since(began) > 10*time.Minute && away {
					if calls > 100 {
						t.Errorf("%s: %d calls in ten minutes", what, calls)
					}
					away, refused = false, false
				}
				time.Sleep(again)
				again = row.attempt(t, w, u.Name)
			}
			if _, left := stored(); left || calls < 10 {
				t.Errorf("%s: after %d calls the UpdateRequest is left: %v", what, calls, left)
			}
			if _, left := w.end.progress[u.Name]; left {
				t.Errorf("%s: there is still a state of the UpdateRequest", what)
			}
		})
	}
}

// Works of one policy that fail in one namespace send together about as many requests as one of them, and those of another namespace do not
// wait for them.
func TestPausesOfManyFailures(t *testing.T) {
	const many = 12
	synctest.Test(t, func(t *testing.T) {
		var all []*kyvernov2.UpdateRequest
		var objects []client.Object
		for i := range many + 1 {
			namespace, name := "n", fmt.Sprint("t", i)
			if i == many {
				namespace = "m"
			}
			trigger := configMapOf(namespace, name, name, triggers)
			u := workOf(t, "anybody", triggerSpec(namespace, name, name), "CREATE", "u", trigger)
			objects = append(objects, trigger)
			if all = append(all, u); i > 0 {
				u.Namespace, u.Name, u.UID, u.Generation, u.CreationTimestamp = "ephor", fmt.Sprint("ur-", i+1), types.UID(name), 1, metav1.Now()
				objects = append(objects, u)
			}
		}
		w, _ := newMarked(t)
		var mu sync.Mutex
		refused, writes := true, map[string]int{}
		withRequest(t, w, interceptor.Funcs{Create: func(ctx context.Context, x client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			mu.Lock()
			defer mu.Unlock()
			if writes[o.GetNamespace()]++; refused {
				return errors.New("no right")
			}
			return x.Create(ctx, o, opts...)
		}}, all[0], objects...)
		var ended sync.WaitGroup
		for _, u := range all {
			ended.Go(func() { run(t, w, u.Name, 100) })
		}
		time.Sleep(time.Minute)
		mu.Lock()
		if alone, together := writes["m"], writes["n"]; alone < 6 || together > 60 {
			t.Errorf("within a minute: %d attempts of %d UpdateRequests in one namespace, and %d of one in another", together, many, alone)
		}
		refused = false
		mu.Unlock()
		healed := time.Now()
		ended.Wait()
		if took := time.Since(healed); took > longestRetry {
			t.Errorf("the last attempt came %s after the failures ended", took)
		}
		left := &kyvernov2.UpdateRequestList{}
		if err := w.Client.List(t.Context(), left); err != nil || len(left.Items) > 0 || len(w.end.retried) > 0 {
			t.Errorf("%d UpdateRequests are left, %v; waiting: %v", len(left.Items), err, w.end.retried)
		}
	})
}

// An UpdateRequest that failed is kept for an hour while its policy exists.
func TestFailedUpdateRequestsExpire(t *testing.T) {
	for name, c := range map[string]struct {
		age    time.Duration
		policy string
		theirs bool
		left   bool
	}{
		"new":               {age: 20 * time.Minute, policy: "p", left: true},
		"of another":        {age: 2 * time.Hour, policy: "p", theirs: true, left: true},
		"old":               {age: 2 * time.Hour, policy: "p"},
		"of no policy":      {age: time.Minute, policy: "none"},
		"requested anew":    {age: time.Minute, policy: "p"},
		"old and requested": {age: 2 * time.Hour, policy: "p"},
	} {
		synctest.Test(t, func(t *testing.T) {
			trigger := configMapOf("n", "there", "u1", triggers)
			w, _ := newMarked(t, trigger)
			u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "CREATE", "u", trigger)
			u.Spec.Policy, u.CreationTimestamp = c.policy, metav1.NewTime(time.Now().Add(-c.age))
			u.Status = kyvernov2.UpdateRequestStatus{State: kyvernov2.Failed, ObservedGeneration: 1}
			if strings.Contains(name, "requested") {
				u.Status.ObservedGeneration = 0
			}
			stored := withRequest(t, w, interceptor.Funcs{}, u, trigger)
			if c.theirs {
				w.Share = &part{}
			}
			again, err := w.Reconcile(t.Context(), u.Name)
			if _, left := stored(); err != nil || left != c.left || again != 0 {
				t.Errorf("%s: it is left: %v, and handled again after %s, %v", name, left, again, err)
			}
		})
	}
}
