package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewInformer returns an informer whose watches end as with End. It is an option of a cache of controller-runtime.
func NewInformer(from toolscache.ListerWatcher, o runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if l, ok := from.(*toolscache.ListWatch); ok && l.WatchFuncWithContext != nil {
		open := l.WatchFuncWithContext
		l.WatchFuncWithContext = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := open(ctx, options)
			if err != nil {
				return nil, err
			}
			return received{w}, nil
		}
	}
	return toolscache.NewSharedIndexInformer(from, o, resync, indexers)
}

// received is a watch whose Stop is End.
type received struct{ watch.Interface }

func (r received) Stop() { End(r.Interface) }
