package intake

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kinds follows kinds of objects. An installation may lack optional kinds: it then has no objects of them, and everything else works.
// Kinds follows them once they are defined.
type Kinds struct {
	Cache cache.Cache
	// Live reads from the API server directly, to find out whether a kind is defined.
	Live client.Reader
	Log  *slog.Logger

	missing []Watch // used by one goroutine at a time
}

// RetryMissing is the pause before a missing kind is looked up again.
const RetryMissing = 30 * time.Second

// A kind that is defined but not served yet is looked up again after servedPause, up to servedTries times.
const (
	servedPause = 300 * time.Millisecond
	servedTries = 30
)

// Follow starts the informers with their handlers, and waits until all existing objects are handled. It remembers the optional kinds that
// are not defined; any other missing kind is an error.
func (k *Kinds) Follow(ctx context.Context, all []Watch) error {
	again := len(k.missing) > 0
	var missing []Watch
	var synced []toolscache.InformerSynced
	for i, w := range all {
		s, err := k.begin(ctx, w)
		switch {
		case w.Optional && meta.IsNoMatchError(err):
			missing = append(missing, w)
			if !again {
				k.Log.Warn("a kind is not defined in this cluster: policies run without its objects", "kind", kindOf(w.Object))
			}
		case err != nil:
			if again {
				k.missing = append(missing, all[i:]...) // those that started have their handlers
			}
			return err
		default:
			synced = append(synced, s)
		}
	}
	k.missing = missing
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	return nil
}

// begin starts the informer of one kind. A kind may have objects before the API server lists it; begin then waits, so that it misses none
// of them.
func (k *Kinds) begin(ctx context.Context, w Watch) (toolscache.InformerSynced, error) {
	for tries := 0; ; tries++ {
		synced, err := start(ctx, k.Cache, w)
		if !w.Optional || !meta.IsNoMatchError(err) || tries == servedTries || !k.defined(ctx, w) {
			return synced, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(servedPause):
		}
	}
}

// Missing returns the kinds that are not defined.
func (k *Kinds) Missing() (names []string) {
	for _, w := range k.missing {
		names = append(names, kindOf(w.Object))
	}
	return names
}

// Again looks up the missing kinds, and returns when to call it again; 0 for never.
func (k *Kinds) Again(ctx context.Context) (time.Duration, error) {
	if len(k.missing) == 0 {
		return 0, nil
	}
	return RetryMissing, k.Follow(ctx, k.missing)
}
