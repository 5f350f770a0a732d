package serving

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// While the cache stays behind, as after an outage of the API server, the configurations are not written ten times a second.
func TestRoundsWhileTheCacheIsBehind(t *testing.T) {
	p := &Paths{now: time.Now, behind: conflictPause, log: slog.New(slog.DiscardHandler)}
	u := &Unlocked{Log: p.log}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "a", errors.New("the cache is behind"))
	round := func(err error) time.Duration {
		again, failed := p.Round(t.Context(), u, func(context.Context, func(string) string) (bool, time.Duration, error) { return err == nil, 0, err })
		if failed != nil {
			t.Fatal(failed)
		}
		return again
	}
	var spent time.Duration
	writes := 0
	for ; spent < time.Minute; spent += round(conflict) {
		writes++
	}
	if writes > 20 {
		t.Errorf("%d writes in a minute, want at most 20", writes)
	}
	if round(nil); round(conflict) != RetryConflict {
		t.Error("after a round that worked, the first pause is not the shortest")
	}
}
