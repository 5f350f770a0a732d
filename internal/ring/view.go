package ring

import "time"

// The times of a member.
const (
	// Renew is how often a member lists the Leases and renews its own.
	Renew = 2 * time.Second
	// Valid is how long a member counts after its Lease was seen renewed.
	Valid = 12 * time.Second
	// Start is how long after its last proof a member begins something new, Cancel how long it goes on with what it has
	// begun. The proof counts from before the requests that gave it.
	Start, Cancel = 8 * time.Second, 10 * time.Second
	// Settle is how long after the last change of the ring a member begins with keys that it gained.
	Settle = 14 * time.Second
)

// view is what a member knows of the ring. It reads no clock: the caller passes the time. It is used under the lock of
// its Ring.
type view struct {
	self   string
	others map[string]sight
	// past are the rings since the ring was last settled; the last one is the ring now.
	past    []members
	changed time.Time // when the ring last changed
	proof   time.Time // since when the last successful round was under way; zero when there is no authority
	waits   bool      // keys were gained that may not be worked for yet
	lost    int       // how often the authority was lost
}

// maxPast bounds the rings that are kept when it never comes to rest.
const maxPast = 16

// sight is when a member was last seen alive.
type sight struct {
	version string // of its Lease
	at      time.Time
}

func newView(self string) view {
	return view{self: self, others: map[string]sight{}, past: []members{{}}}
}

// see takes note of the Leases of the others, as a list that was answered at the time now shows them.
func (v *view) see(versions map[string]string, now time.Time) {
	for name := range v.others {
		if _, ok := versions[name]; !ok {
			delete(v.others, name)
		}
	}
	for name, version := range versions {
		if v.others[name].version != version {
			v.others[name] = sight{version, now}
		}
	}
}

// accept makes a round that was begun at the time start, and is over, the proof of the authority. alone says that no member was
// there before, and that the list showed no other member, nor a trace of one. It reports whether the ring has changed, and whether it came to rest.
func (v *view) accept(start, now time.Time, alone bool) (changed, settled bool) {
	names := []string{v.self}
	for name, s := range v.others {
		if start.Sub(s.at) < Valid {
			names = append(names, name)
		}
	}
	next := newMembers(names)
	if !v.proof.IsZero() && now.Sub(v.proof) >= Start {
		v.lose() // the others may have counted us out meanwhile
	}
	v.proof = start
	settled = v.settled(now)
	if next.equal(v.past[len(v.past)-1]) {
		return false, settled
	}
	v.past, v.changed, v.waits = append(v.past, next), now, true
	if len(v.past) > maxPast {
		v.past = []members{{}, next} // nothing is held until it rests
	}
	if alone {
		v.past, v.waits = []members{next}, false
	}
	return true, settled
}

// solo reports whether everything was held.
func (v *view) solo() bool {
	return len(v.past) == 1 && len(v.past[0].names) == 1 && v.past[0].names[0] == v.self
}

// lose ends the authority; everything has to be gained anew.
func (v *view) lose() {
	v.proof, v.past, v.waits = time.Time{}, []members{{}}, false
	v.lost++
}

// settled takes what was gained as held once that is so, and reports whether it just became so.
func (v *view) settled(now time.Time) bool {
	if !v.waits || now.Sub(v.changed) < Settle {
		return false
	}
	v.past, v.waits = v.past[len(v.past)-1:], false
	return true
}

// holds reports whether work for the key may begin.
func (v *view) holds(key string, now time.Time) bool {
	if v.proof.IsZero() || now.Sub(v.proof) >= Start {
		return false
	}
	past := v.past
	if v.waits && now.Sub(v.changed) >= Settle {
		past = past[len(past)-1:]
	}
	for _, m := range past {
		if m.holder(key) != v.self {
			return false
		}
	}
	return true
}

// keeps reports whether the key is ours according to the last round.
func (v *view) keeps(key string) bool {
	return !v.proof.IsZero() && v.past[len(v.past)-1].holder(key) == v.self
}

// next is when a counted member expires unless it renews; zero for never.
func (v *view) next() time.Time {
	var first time.Time
	for _, name := range v.past[len(v.past)-1].names {
		if s, ok := v.others[name]; ok {
			if at := s.at.Add(Valid); first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	return first
}
