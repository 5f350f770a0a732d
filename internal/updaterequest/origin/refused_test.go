package origin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/controller"
)

// closed is a cluster in which the record can be written while open is set.
type closed struct {
	client.Client
	open   atomic.Bool
	writes atomic.Int32
	denied bool // by a policy of the API server, and not for lack of a right
}

func newClosed() *closed {
	c := &closed{}
	write := func(name string) error {
		c.writes.Add(1)
		switch {
		case c.open.Load():
		case c.denied:
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, name, nil)
		default:
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, errors.New("no right"))
		}
		return nil
	}
	c.Client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, x client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := write(o.GetName()); err != nil {
				return err
			}
			return x.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, x client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := write(o.GetName()); err != nil {
				return err
			}
			return x.Update(ctx, o, opts...)
		},
	}).Build()
	return c
}

// A record that may not be written stays in memory, whatever is stored. It is stored when this is allowed again.
func TestRecordThatMayNotBeWritten(t *testing.T) {
	c := newClosed()
	c.open.Store(true)
	l, other := open(t, c), open(t, c)
	l.Add(entry("p", "r", "x", "stored"))
	l.Add(entry("p", "r", "x", "dropped"))
	store(t, l)
	follow := func(l *Record) {
		for i := range Shards {
			if err := l.Stored(t.Context(), Name(i), "another"); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.open.Store(false)
	for i := range 50 {
		l.Add(entry("p", "r", "x", fmt.Sprint(i)))
		l.Add(entry("p", "r", "x", fmt.Sprint("passing", i)))
		l.Drop(fmt.Sprint("passing", i))
	}
	l.Drop("dropped")
	store(t, l)
	follow(l)
	has := func(l *Record, uid string, want bool) {
		t.Helper()
		if _, ok := l.Object(uid); ok != want {
			t.Errorf("the record has %s: %v", uid, ok)
		}
	}
	has(l, "0", true)
	has(l, "stored", true)
	has(l, "dropped", false)
	if got := l.Len(); got != 51 {
		t.Errorf("%d entries, want 51", got)
	}
	kept := 0
	for i := range l.shards {
		kept += len(l.shards[i].pending)
	}
	if kept != 51 {
		t.Errorf("%d changes are kept, want those of 50 objects and a stored one", kept)
	}
	c.open.Store(true)
	store(t, l)
	follow(other)
	has(other, "0", true)
	has(other, "dropped", false)
}

// Objects that come and go while a policy of the API server denies the record take no memory.
func TestRecordThatIsDenied(t *testing.T) {
	c := newClosed()
	l := open(t, c)
	c.denied = true
	for i := range 50 {
		l.Add(entry("p", "r", "x", fmt.Sprint(i)))
		l.Add(entry("p", "r", "x", fmt.Sprint("passing", i)))
		l.Drop(fmt.Sprint("passing", i))
	}
	if err := l.Store(t.Context()); err == nil {
		t.Error("the failure is not reported")
	}
	kept := 0
	for i := range l.shards {
		kept += len(l.shards[i].pending)
	}
	if kept != 50 {
		t.Errorf("%d changes are kept, want those of 50 objects", kept)
	}
}

// A part of the record that is too large to be stored stays in memory, too.
func TestRecordThatIsTooLarge(t *testing.T) {
	c := newClosed()
	c.open.Store(true)
	l := open(t, c)
	for i := range 100 {
		e := entry("p", "r", "x", fmt.Sprint(i))
		if i == 0 {
			e.Object.Name = random(2 * maxStored)
		}
		l.Add(e)
	}
	store(t, l)
	for i := range Shards {
		if err := l.Stored(t.Context(), Name(i), "another"); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Len(); got != 100 {
		t.Errorf("%d entries are left", got)
	}
}

// random returns a text that cannot be compressed.
func random(n int) string {
	out, x := make([]byte, n), uint32(1)
	for i := range out {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		out[i] = byte('!' + x>>8%90)
	}
	return string(out)
}

// While a record may not be written, this is tried again after some minutes, and not for each object.
func TestRefusedWritesPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		ctx, stop := context.WithCancel(t.Context())
		changed, log := &controller.Signal{}, slog.New(slog.DiscardHandler)
		l := New(Options{Client: c, Namespace: "ephor", Changed: changed.Fire, Log: log})
		go controller.RunRows(ctx, []controller.Row{{Name: "record", Sources: []controller.Source{changed}, Reconcile: controller.Singleton(l.Reconcile)}}, log, nil)
		for i := range 600 {
			l.Add(entry("p", "r", "x", fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		if n := c.writes.Load(); n < 2*Shards || n > 4*Shards {
			t.Errorf("%d writes in ten minutes", n)
		}
		c.open.Store(true)
		time.Sleep(2 * refusedTime)
		stored := New(Options{Client: c, Namespace: "ephor", Log: slog.New(slog.DiscardHandler)})
		if err := stored.Load(t.Context()); err != nil || stored.Len() != 600 {
			t.Errorf("%d entries are stored: %v", stored.Len(), err)
		}
		stop()
		synctest.Wait()
	})
}
