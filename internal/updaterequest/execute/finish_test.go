package execute

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
)

// newer is the error of a write to an object that another client has changed.
func newer(o client.Object) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, o.GetName(), errors.New("it is newer"))
}

// run executes an UpdateRequest until there is no further attempt, and returns the number of attempts and the time they took.
func run(t *testing.T, w *Worker, name string, most int) (attempts int, took time.Duration) {
	t.Helper()
	began := time.Now()
	for again := time.Nanosecond; again > 0 && attempts < most; attempts++ {
		time.Sleep(again)
		again = w.pass(t.Context(), name)
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
