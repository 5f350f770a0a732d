package controller

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// Source adds keys to the queue of a row.
type Source interface {
	// Start connects the queue, and returns a function that adds keys until ctx is done; nil if there is nothing to run. The function is
	// called again, after a pause, if it returns an error or panics.
	Start(ctx context.Context, add func(key string)) (run func() error)
}

// Func is a Source that consists of one function.
type Func func(ctx context.Context, add func(key string)) error

// Start implements Source.
func (f Func) Start(ctx context.Context, add func(key string)) func() error {
	return func() error { return f(ctx, add) }
}

// Forever returns a Source for a function that runs until its context is done and adds no keys.
func Forever(run func(context.Context)) Source {
	return Func(func(ctx context.Context, _ func(string)) error { run(ctx); return nil })
}

// Serve returns a Source that serves on a listener until its context is done and adds no keys. It listens again at the same address each time
// that serving has failed, since a server closes its listener.
func Serve(listener net.Listener, serve func(context.Context, net.Listener) error) Source {
	address := listener.Addr()
	return Func(func(ctx context.Context, _ func(string)) (err error) {
		l := listener
		if listener = nil; l == nil {
			if l, err = net.Listen(address.Network(), address.String()); err != nil {
				return err
			}
		}
		defer func() { _ = l.Close() }()
		return serve(ctx, l)
	})
}

// Repeat is a Source that calls a function again and again, each time after the pause that it returned. It adds no keys.
type Repeat func(ctx context.Context) time.Duration

// Start implements Source.
func (f Repeat) Start(ctx context.Context, _ func(key string)) func() error {
	return func() error {
		for ctx.Err() == nil {
			Sleep(ctx, f(ctx))
		}
		return nil
	}
}

// Signal is a Source that other parts of the process use. Several rows may have the same Signal. Its zero value is ready.
type Signal struct {
	mu   sync.Mutex
	rows map[*func(key string)]bool
}

// Start implements Source.
func (s *Signal) Start(ctx context.Context, add func(key string)) func() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[*func(string)]bool{}
	}
	s.rows[&add] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.rows, &add)
	})
	return nil
}

// Add adds a key to the queues of the rows that run. It does not block.
func (s *Signal) Add(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for add := range s.rows {
		(*add)(key)
	}
}

// Fire adds the key of rows that have one key only.
func (s *Signal) Fire() { s.Add("") }

// Reflector lists the objects of a resource, watches them, and hands each one to a sink. It keeps none of them.
type Reflector[T metav1.Object] struct {
	From toolscache.ListerWatcherWithContext
	// Options select objects; Limit is the number of objects in one page, 0 for 500.
	Options metav1.ListOptions
	Sink    Sink[T]
	// Key returns the key to add for an object; nil to add none. The keys After are added after each list.
	Key   func(T) string
	After []string
	// Pause bounds the pauses after failures and after watches that end at once.
	Pause Pause
}

// Client lists and watches the objects of one resource, as the clients of client-go do: typed, dynamic, or for metadata.
type Client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// From returns a client as a Reflector uses it.
func From[L runtime.Object](c Client[L]) toolscache.ListerWatcherWithContext { return from[L]{c} }

type from[L runtime.Object] struct{ client Client[L] }

func (f from[L]) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return f.client.List(ctx, o)
}

func (f from[L]) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return f.client.Watch(ctx, o)
}

// Sink receives the objects of a Reflector. Its functions are called one at a time; all may be nil.
type Sink[T metav1.Object] struct {
	// Seen is called for each object that is listed, added or changed. An error ends the list or watch.
	Seen func(T) error
	// Gone is called for each object that is deleted during a watch.
	Gone func(T)
	// Begin is called before each list, and Listed after it with its resource version. An error ends the attempt.
	Begin  func()
	Listed func(version string) error
	// Failed is called before the pause that follows a failure: the resource is not served, the account may not list or watch it, or the
	// API server does not answer.
	Failed func(err error, pause time.Duration)
}

// pageSize is the number of objects in one page of a list.
const pageSize = 500

// Start implements Source.
func (r *Reflector[T]) Start(ctx context.Context, add func(key string)) func() error {
	return func() error { r.run(ctx, add); return nil }
}

// Run follows the resource until ctx is done.
func (r *Reflector[T]) Run(ctx context.Context) { r.run(ctx, nil) }

func (r *Reflector[T]) run(ctx context.Context, add func(key string)) {
	seen := func(o T) error {
		if r.Sink.Seen != nil {
			if err := r.Sink.Seen(o); err != nil {
				return err
			}
		}
		r.changed(o, add)
		return nil
	}
	pause := r.Pause
	for ctx.Err() == nil {
		options := r.Options
		version, err := r.list(ctx, options, seen, add)
		if err == nil {
			options.ResourceVersion = version
			_, err = Watch(ctx, options, r.From.WatchWithContext, &pause, func(e watch.Event) error {
				o, ok := e.Object.(T)
				switch {
				case !ok:
					return fmt.Errorf("the watch sent an unexpected %T", e.Object)
				case e.Type != watch.Deleted:
					return seen(o)
				}
				if r.Sink.Gone != nil {
					r.Sink.Gone(o)
				}
				r.changed(o, add)
				return nil
			})
			if err != nil {
				err = fmt.Errorf("watch: %w", err)
			}
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		wait := pause.Next()
		if r.Sink.Failed != nil {
			r.Sink.Failed(err, wait)
		}
		Sleep(ctx, wait)
	}
}

func (r *Reflector[T]) changed(o T, add func(key string)) {
	if add != nil && r.Key != nil {
		add(r.Key(o))
	}
}

// list hands over all objects, and returns the version from which to watch them.
func (r *Reflector[T]) list(ctx context.Context, options metav1.ListOptions, seen func(T) error, add func(key string)) (string, error) {
	if options.Limit == 0 {
		options.Limit = pageSize
	}
	if r.Sink.Begin != nil {
		r.Sink.Begin()
	}
	read := func(ctx context.Context, o metav1.ListOptions) (listed, error) {
		page, err := r.From.ListWithContext(ctx, o)
		if err != nil {
			return listed{}, err
		}
		of, err := meta.ListAccessor(page)
		return listed{of, page}, err
	}
	version, err := Pages(ctx, options, read, func(page listed) error {
		return meta.EachListItem(page.objects, func(item runtime.Object) error {
			o, ok := item.(T)
			if !ok {
				return fmt.Errorf("the list contains an unexpected %T", item)
			}
			return seen(o)
		})
	})
	if err != nil {
		return "", fmt.Errorf("list: %w", err)
	}
	if r.Sink.Listed != nil {
		err = r.Sink.Listed(version)
	}
	for _, key := range r.After {
		if add != nil && err == nil {
			add(key)
		}
	}
	return version, err
}

// listed is a page of objects of any type.
type listed struct {
	metav1.ListInterface
	objects runtime.Object
}
