package app

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/ephor-dev/ephor/internal/catalog"
)

// optional are kinds that an installation may lack, such as GlobalContextEntries: who has no definition of them has no
// objects of them, and everything else goes on. They are followed as soon as they are defined.
type optional struct {
	cache   cache.Cache
	log     *slog.Logger
	missing []watched // used by one goroutine at a time
}

// retryMissing is how soon a kind is looked for again that is not defined.
const retryMissing = 30 * time.Second

// watch follows the kinds that are defined, waits for their objects, and remembers the others.
func (o *optional) watch(ctx context.Context, all []watched) error {
	again := len(o.missing) > 0
	var missing []watched
	for _, w := range all {
		err := watchAll(ctx, o.cache, []watched{w})
		switch {
		case meta.IsNoMatchError(err):
			missing = append(missing, w)
			if !again {
				o.log.Warn("a kind is not defined in this cluster: policies do without its objects", "kind", kindOf(w.object))
			}
		case err != nil:
			return err
		}
	}
	o.missing = missing
	return nil
}

// besides are the kinds that policies lean on: GlobalContextEntries, and exceptions where they count.
func besides(g *globals, f exceptionFlags, c *catalog.Catalog, o *observing) []watched {
	all := []watched{{policyObject(globalEntryGVK), o.taken(globalsName, g.handler())}}
	if f.on() {
		follow := &exceptions{flags: f, catalog: c, log: o.log}
		all = append(all, watched{policyObject(exceptionGVK), o.taken(exceptionsName, follow.handler())})
	}
	return all
}

// task looks for what is missing again and again.
func (o *optional) task() task {
	return task{name: "optional-kinds", wake: newTrigger(), once: func(ctx context.Context) (time.Duration, error) {
		if len(o.missing) == 0 {
			return 0, nil
		}
		return retryMissing, o.watch(ctx, o.missing)
	}}
}
