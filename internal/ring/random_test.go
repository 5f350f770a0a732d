package ring

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// busy works on each key as long as it may.
type busy struct {
	*member
	work map[string]held
	gone bool
}

type held struct {
	ctx     context.Context
	release func()
}

// look begins work that may begin, and ends work that must end.
func (b *busy) look() {
	for k, h := range b.work {
		if h.ctx.Err() != nil {
			h.release()
			delete(b.work, k)
		}
	}
	for _, k := range keys[:20] {
		if _, works := b.work[k]; works {
			continue
		}
		if ctx, release, ok := b.Hold(context.Background(), k); ok {
			b.work[k] = held{ctx, release}
		}
	}
}

// Whatever happens to members and their connections to the API server, at most one member works on a key at a time; and once nothing
// changes, each key is held.
func TestNoTwoWorkForAKey(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, rand.New(rand.NewPCG(seed, 5))) })
		})
	}
}

func storm(t *testing.T, random *rand.Rand) {
	s := newStore()
	var all []*busy
	var did []string
	live := func() (out []*busy) {
		for _, b := range all {
			if !b.gone {
				out = append(out, b)
			}
		}
		return out
	}
	join := func() {
		all = append(all, &busy{member: s.join(t, fmt.Sprint("m", len(all))), work: map[string]held{}})
	}
	join()
	act := func() {
		some := live()
		if len(some) == 0 {
			join()
			return
		}
		b := some[random.IntN(len(some))]
		what := ""
		switch random.IntN(12) {
		case 0, 1:
			if len(some) < 5 {
				join()
				what = "joins"
			}
		case 2:
			what = "ends in order"
			b.gone = true
			for k, h := range b.work {
				h.release()
				delete(b.work, k)
			}
			b.stop()
		case 3:
			what = "is killed"
			b.link.set(true, 0) // it stays away, and its work continues until it is cancelled
			b.gone = true
		case 4, 5:
			what = "is cut off"
			b.link.set(true, 0)
		case 6, 7:
			what = "has a slow way"
			b.link.set(false, time.Duration(random.Int64N(int64(4*time.Second))))
		case 8, 9, 10:
			what = "is well"
			b.link.set(false, 0)
		case 11:
			what = "loses its Lease"
			s.mu.Lock()
			if l := s.leases[b.name]; l != nil {
				thief := "thief"
				l = l.DeepCopy()
				l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &thief}
				s.put(l)
			}
			s.mu.Unlock()
		}
		did = append(did, b.Identity+" "+what)
	}
	check := func() {
		for _, k := range keys[:20] {
			var who []string
			for _, b := range all {
				if h, works := b.work[k]; works && !Lapsed(h.ctx) {
					who = append(who, b.Identity)
				}
			}
			if len(who) > 1 {
				t.Fatalf("%s: %v work for it at once, after: %s", k, who, strings.Join(did, ", "))
			}
		}
	}
	worked := 0
	for step := range 1200 {
		if step%8 == 0 && random.IntN(3) == 0 {
			act()
		}
		after(250 * time.Millisecond)
		for _, b := range all {
			b.look()
			worked += len(b.work)
		}
		check()
	}
	for _, b := range live() {
		b.link.set(false, 0)
	}
	if len(live()) == 0 {
		join()
	}
	for range 300 {
		after(250 * time.Millisecond)
		for _, b := range all {
			b.look()
		}
		check()
	}
	for _, k := range keys[:20] {
		n := 0
		for _, b := range live() {
			if b.Owns(k) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is held by %d members when all is well again, after: %s", k, n, strings.Join(did, ", "))
		}
	}
	if worked == 0 {
		t.Error("nobody ever worked")
	}
}
