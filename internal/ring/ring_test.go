package ring

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// The first member of a ring does not wait.
func TestFirstMemberHoldsEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		shared(t, a)
		if got := a.Members(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the members are %v", got)
		}
		if got := s.names(); !slices.Equal(got, []string{"background-a"}) {
			t.Errorf("the Leases are %v", got)
		}
	})
}

// Two members that start together either see each other's Lease, or one comes first; neither wrongly assumes to be alone.
func TestStartingTogether(t *testing.T) {
	for _, delay := range []time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			a := s.join(t, "a")
			time.Sleep(delay)
			b := s.join(t, "b")
			for range 20 * 4 {
				after(250 * time.Millisecond)
				exclusive(t, a, b)
			}
			shared(t, a, b)
		})
	}
}

// A member keeps its keys when another one joins, except those that the new member gets; the new member works on them 14 seconds later.
func TestJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		after(5 * time.Second)
		begin := time.Now()
		b := s.join(t, "b")
		after(Renew)
		kept := a.count()
		if kept == 0 || kept == len(keys) {
			t.Errorf("a holds %d keys after b came", kept)
		}
		for b.count() == 0 {
			exclusive(t, a, b)
			after(100 * time.Millisecond)
			if time.Since(begin) > time.Minute {
				t.Fatal("b never holds anything")
			}
		}
		if waited := time.Since(begin); waited < Settle || waited > Settle+time.Second {
			t.Errorf("b held its share after %s, want %s", waited, Settle)
		}
		if a.count() != kept {
			t.Errorf("a holds %d keys, and held %d", a.count(), kept)
		}
		shared(t, a, b)
	})
}

// The share of a killed member moves within 30 seconds, and not before the member must have stopped.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := s.join(t, "a"), s.join(t, "b")
		c := s.join(t, "c")
		after(30 * time.Second)
		shared(t, a, b, c)
		b.link.set(true, 0) // the others see it as dead
		last := time.Now()
		moved := time.Duration(0)
		for range 400 {
			after(100 * time.Millisecond)
			exclusive(t, a, b, c)
			if a.count()+c.count() == len(keys) {
				moved = time.Since(last)
				break
			}
		}
		if moved < Valid+Settle-Renew || moved > 30*time.Second {
			t.Errorf("the share moved after %s", moved)
		}
		if b.count() != 0 {
			t.Errorf("the dead one holds %d keys", b.count())
		}
		// The member comes back.
		b.link.set(false, 0)
		for range 200 {
			after(100 * time.Millisecond)
			exclusive(t, a, b, c)
		}
		shared(t, a, b, c)
	})
}

// A member that ends normally is removed at the next list of the others, not when its Lease expires.
func TestMemberEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := s.join(t, "a"), s.join(t, "b")
		after(30 * time.Second)
		var own string
		for _, k := range keys {
			if b.Owns(k) {
				own = k
			}
		}
		ctx, release, ok := b.Hold(t.Context(), own)
		if !ok {
			t.Fatal("b holds nothing")
		}
		ended := make(chan struct{})
		go func() { b.stop(); close(ended) }()
		after(3 * time.Second)
		if b.Owns(own) {
			t.Error("a member that leaves begins something new")
		}
		if got := s.names(); !slices.Contains(got, "background-b") {
			t.Error("the Lease is removed while work is in flight")
		}
		if ctx.Err() != nil {
			t.Error("the work in flight is cancelled before its time")
		}
		release()
		<-ended
		left := time.Now()
		if got := s.names(); slices.Contains(got, "background-b") {
			t.Errorf("the Leases are %v", got)
		}
		for a.count() < len(keys) {
			after(100 * time.Millisecond)
		}
		if waited := time.Since(left); waited < Settle || waited > Settle+Renew {
			t.Errorf("the share moved after %s", waited)
		}
	})
}

// A member that ends during a renewal, which was carried out and not answered, removes its Lease, too.
func TestMemberEndsDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		after(Renew / 2)
		a.link.mu.Lock()
		a.link.slow = true
		a.link.mu.Unlock()
		after(Renew)
		a.link.mu.Lock()
		a.link.slow = false
		a.link.mu.Unlock()
		a.stop()
		if got := s.names(); len(got) > 0 {
			t.Errorf("the Leases are %v", got)
		}
	})
}

// Work that continues while its member leaves is cancelled ten seconds after the last proof.
func TestLeavingWithWorkThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		ctx, release, _ := a.Hold(t.Context(), "k")
		begin := time.Now()
		go func() { <-ctx.Done(); release() }()
		a.stop()
		if waited := time.Since(begin); waited != Cancel || context.Cause(ctx) != ErrLapsed {
			t.Errorf("it ended after %s: %v", waited, context.Cause(ctx))
		}
		if got := s.names(); len(got) != 0 {
			t.Errorf("the Leases are %v", got)
		}
	})
}

// Without a renewal no new work begins after 8 seconds, and work in progress is cancelled after 10.
func TestWithoutRenewal(t *testing.T) {
	for name, cut := range map[string]func(*link){
		"it cannot be reached": func(l *link) { l.set(true, 0) },
		"it does not answer":   func(l *link) { l.set(false, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newStore().join(t, "a")
				proof := time.Now()
				cut(a.link)
				ctx, release, ok := a.Hold(t.Context(), "k")
				if !ok {
					t.Fatal("it holds nothing")
				}
				defer release()
				after(Start - time.Millisecond)
				if !a.Owns("k") || ctx.Err() != nil || Lapsed(ctx) {
					t.Error("it has stopped before 8 seconds")
				}
				after(time.Millisecond)
				if _, _, ok := a.Hold(t.Context(), "k"); ok || a.Owns("k") || a.Members() != nil {
					t.Error("it begins something new after 8 seconds")
				}
				if ctx.Err() != nil || Lapsed(ctx) {
					t.Error("what is in flight is cancelled before 10 seconds")
				}
				<-ctx.Done()
				if waited := time.Since(proof); waited != Cancel || context.Cause(ctx) != ErrLapsed || !Lapsed(ctx) {
					t.Errorf("cancelled after %s: %v", waited, context.Cause(ctx))
				}
				a.link.set(false, 0)
				back := time.Now()
				for !a.Owns("k") { // there was no other member before, and there is none now
					after(100 * time.Millisecond)
				}
				if waited := time.Since(back); waited > patience+time.Second {
					t.Errorf("what was lost is held again after %s", waited)
				}
			})
		})
	}
}

// If there is another member, or a trace of one, lost keys must be gained again.
func TestWithoutRenewalAmongOthers(t *testing.T) {
	for name, prepare := range map[string]func(b *member){
		"that live":     func(*member) {},
		"that are dead": func(b *member) { b.link.set(true, 0); after(40 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				a, b := s.join(t, "a"), s.join(t, "b")
				after(30 * time.Second)
				prepare(b)
				held := a.count()
				if held == 0 {
					t.Fatal("a holds nothing")
				}
				a.link.set(true, 0)
				after(9 * time.Second) // the others still count it
				a.link.set(false, 0)
				back := time.Now()
				for a.count() < held {
					if n := a.count(); n > 0 {
						t.Fatalf("it holds %d keys of %d", n, held)
					}
					after(100 * time.Millisecond)
				}
				if waited := time.Since(back); waited < Settle || waited > Settle+Renew {
					t.Errorf("what was lost is held again after %s", waited)
				}
				exclusive(t, a, b)
			})
		})
	}
}

// A shorter outage changes nothing.
func TestShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStore().join(t, "a")
		ctx, release, _ := a.Hold(t.Context(), "k")
		defer release()
		for range 10 {
			a.link.set(true, 0)
			after(6 * time.Second)
			a.link.set(false, 0)
			after(3 * time.Second)
			if !a.Owns("k") || ctx.Err() != nil {
				t.Fatal("the authority is lost")
			}
		}
	})
}

// A member that cannot renew its Lease for a long time asks no more often than one that can.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStore().join(t, "a")
		a.link.set(true, 0)
		after(time.Minute)
		before := a.link.lists.Load()
		after(10 * time.Minute)
		if n := a.link.lists.Load() - before; n > int64(10*time.Minute/Renew) {
			t.Errorf("%d lists in ten minutes", n)
		}
	})
}

// A stolen or deleted Lease ends the authority at once; taking it again is a change of the ring.
func TestStolenLease(t *testing.T) {
	for name, steal := range map[string]func(*testing.T, *store){
		"taken": func(t *testing.T, s *store) {
			s.edit(t, "background-a", func(l *coordinationv1.Lease) { thief := "thief"; l.Spec.HolderIdentity = &thief })
		},
		"emptied": func(t *testing.T, s *store) {
			s.edit(t, "background-a", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })
		},
		"deleted": func(_ *testing.T, s *store) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.leases, "background-a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				a := s.join(t, "a")
				after(time.Minute + time.Second)
				ctx, release, _ := a.Hold(t.Context(), "k")
				defer release()
				changed := a.Changed()
				steal(t, s)
				stolen := time.Now()
				<-ctx.Done()
				if waited := time.Since(stolen); waited > Renew || context.Cause(ctx) != ErrLapsed || !Lapsed(ctx) {
					t.Errorf("cancelled after %s: %v", waited, context.Cause(ctx))
				}
				<-changed
				for range 130 {
					if a.Owns("k") {
						t.Fatal("it works again before the ring is settled")
					}
					after(100 * time.Millisecond)
				}
				after(2 * time.Second)
				if !a.Owns("k") {
					t.Error("it does not work again")
				}
				s.edit(t, "background-a", func(l *coordinationv1.Lease) {
					if holderOf(l) != a.holder {
						t.Errorf("the Lease is held by %q", holderOf(l))
					}
				})
			})
		})
	}
}

// A paused member stays in the ring without work: work in progress is cancelled, and new work begins when the pause ends.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		shared(t, a)
		ctx, release, ok := a.Hold(t.Context(), "k")
		if !ok {
			t.Fatal("no work")
		}
		changed := a.Changed()
		a.Pause(true)
		<-ctx.Done()
		<-changed
		if !Lapsed(ctx) || a.Owns("k") {
			t.Error("the work goes on in a pause")
		}
		release()
		after(time.Minute)
		if _, _, ok := a.Hold(t.Context(), "k"); ok || !slices.Equal(a.Members(), []string{"a"}) {
			t.Errorf("work begins in a pause; the members are %v", a.Members())
		}
		changed = a.Changed()
		a.Pause(false)
		<-changed
		shared(t, a)
	})
}

// Work that was cancelled stays cancelled, although the member renews its Lease and holds the key, or holds it again.
func TestCancelledWorkStaysCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		work := map[string]context.Context{}
		for _, k := range append(keys, "paused") {
			ctx, release, ok := a.Hold(t.Context(), k)
			if !ok {
				t.Fatal("a does not hold " + k)
			}
			defer release()
			work[k] = ctx
		}
		b := s.join(t, "b")
		after(time.Minute)
		var lost []string
		for k, ctx := range work {
			if ctx.Err() != nil {
				lost = append(lost, k)
			}
		}
		if len(lost) == 0 || len(lost) == len(work) {
			t.Fatalf("%d pieces of work were cancelled", len(lost))
		}
		b.stop()
		after(time.Minute)
		for _, k := range lost {
			if !Lapsed(work[k]) {
				t.Fatalf("the work on %s goes on, which b held meanwhile", k)
			}
		}
		a.Pause(true)
		after(time.Minute)
		for k, ctx := range work {
			if !Lapsed(ctx) {
				t.Fatalf("the work on %s goes on after the pause began", k)
			}
		}
	})
}

// A client that only writes an annotation does not take the Lease.
func TestEditedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		for range 20 {
			after(900 * time.Millisecond)
			s.edit(t, "background-a", func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"seen": time.Now().String()} })
			if !a.Owns("k") {
				t.Fatal("the authority is lost")
			}
		}
	})
}

// A restarted container finds the Lease of its predecessor in the same Pod, and does not trust it.
func TestRestartInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		first := s.join(t, "a")
		after(time.Minute)
		first.link.set(true, 0)
		begin := time.Now()
		a := s.join(t, "a")
		for !a.Owns("k") {
			after(100 * time.Millisecond)
		}
		if waited := time.Since(begin); waited < Settle || waited > Settle+time.Second {
			t.Errorf("it works after %s", waited)
		}
	})
}

// Work on a key that another member gets may finish in its remaining time, and is not cancelled at once.
func TestLosingAKeyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		after(time.Second)
		type inFlight struct {
			key string
			ctx context.Context
		}
		var all []inFlight
		for _, k := range keys {
			ctx, release, ok := a.Hold(t.Context(), k)
			if !ok {
				t.Fatal("a does not hold " + k)
			}
			defer release()
			all = append(all, inFlight{k, ctx})
		}
		b := s.join(t, "b")
		joined := time.Now()
		cancelled := 0
		for time.Since(joined) < Settle {
			after(100 * time.Millisecond)
			cancelled = 0
			for _, x := range all {
				if x.ctx.Err() != nil {
					cancelled++
				}
			}
			if since := time.Since(joined); cancelled > 0 && since < Cancel-Renew {
				t.Fatalf("%d pieces are cancelled %s after b came", cancelled, since)
			}
		}
		after(time.Second)
		for _, x := range all {
			if (x.ctx.Err() == nil) == b.Owns(x.key) {
				t.Errorf("%s: in flight at a: %t, held by b: %t", x.key, x.ctx.Err() == nil, b.Owns(x.key))
			}
		}
		if cancelled == 0 || cancelled == len(all) {
			t.Errorf("%d pieces were cancelled", cancelled)
		}
	})
}

// The Lease of a member that ended long ago is removed, and a renewed one is not.
func TestStaleLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := s.join(t, "a"), s.join(t, "b")
		c := s.join(t, "c")
		after(time.Minute)
		c.link.set(true, 0)
		after(staleAfter - time.Minute)
		if got := s.names(); len(got) != 3 {
			t.Errorf("the Leases are %v", got)
		}
		after(2 * time.Minute)
		if got := s.names(); !slices.Equal(got, []string{"background-a", "background-b"}) {
			t.Errorf("the Leases are %v", got)
		}
		shared(t, a, b)
	})
}

// With more members than a list shows, no member would see the complete ring.
func TestTooManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := New(Options{Leases: cutList{&link{store: s}}, Controller: "background", Identity: "a"})
		err := r.round(t.Context(), time.Now())
		if err == nil || !strings.Contains(err.Error(), "more than 500 Leases") {
			t.Errorf("the error is %v", err)
		}
	})
}

// In a suspended process no timer has fired when it continues: its late requests are rejected, and so are those after a permanent loss of
// authority.
func TestGuard(t *testing.T) {
	sent := 0
	send := func(ctx context.Context) error {
		r := httptest.NewRequestWithContext(ctx, http.MethodPut, "/", strings.NewReader("x"))
		_, err := Guard(roundTrip(func(*http.Request) (*http.Response, error) { sent++; return nil, nil })).RoundTrip(r)
		return err
	}
	h := &hold{until: time.Now().Add(time.Hour)}
	_, h.cancel = context.WithCancelCause(t.Context())
	ctx := context.WithValue(t.Context(), holdKey{}, h) // never done, as if its timer were late
	for _, c := range []struct {
		name string
		do   func()
		ctx  context.Context
		want error
		sent int
	}{
		{"without a hold", func() {}, t.Context(), nil, 1},
		{"in time", func() {}, ctx, nil, 2},
		{"too late", func() { h.extend(time.Now().Add(-time.Nanosecond)) }, ctx, ErrLapsed, 2},
		{"ended", h.end, ctx, ErrLapsed, 2},
	} {
		c.do()
		if err := send(c.ctx); err != c.want || sent != c.sent {
			t.Errorf("%s: %v, %d are sent; want %v, %d", c.name, err, sent, c.want, c.sent)
		}
	}
}

// A caller of Changed that subscribes before it reads gets every later change.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := s.join(t, "a")
		changed := a.Changed()
		s.join(t, "b")
		<-changed // b has joined
		changed = a.Changed()
		select {
		case <-changed:
			t.Error("nothing has changed")
		default:
		}
		begin := time.Now()
		<-changed // the ring is settled
		if waited := time.Since(begin); waited != Settle {
			t.Errorf("notified after %s", waited)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// All members agree on the holder of a key, the shares are even, and a change moves no more keys than necessary.
func TestRendezvous(t *testing.T) {
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("background-kyverno-background-controller-5f6d-%d", i))
	}
	five, four := newMembers(names), newMembers(names[:4])
	backwards := slices.Clone(names)
	slices.Reverse(backwards)
	got := map[string]int{}
	const n = 10_000
	for i := range n {
		key := fmt.Sprintf("add-networkpolicy/0c5f0a3e-%d", i)
		holder := five.holder(key)
		got[holder]++
		if other := newMembers(backwards).holder(key); other != holder {
			t.Fatalf("%s: %s or %s", key, holder, other)
		}
		if before := four.holder(key); holder != names[4] && before != holder {
			t.Fatalf("%s moves from %s to %s", key, before, holder)
		}
	}
	for _, name := range names {
		if got[name] < n/5*9/10 || got[name] > n/5*11/10 {
			t.Errorf("the shares are %v", got)
			break
		}
	}
	if h := (members{}).holder("k"); h != "" {
		t.Errorf("nobody is %q", h)
	}
	// The hash must not change, because the next release must agree with this one.
	if h := five.holder("add-networkpolicy/0c5f0a3e"); h != wantHolder {
		t.Errorf("the holder is %s: the scores have changed", h)
	}
}

const wantHolder = "background-kyverno-background-controller-5f6d-0"
