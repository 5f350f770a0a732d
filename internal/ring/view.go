package ring

import "time"

// The time constants of a member.
const (
	// Renew is the pause between two rounds of a member.
	Renew = 2 * time.Second
	// Valid is how long a member counts after a renewal of its Lease was seen.
	Valid = 12 * time.Second
	// Start is how long after its last proof a member begins new work, Cancel how long it continues work in progress. A proof counts from
	// the time before its requests.
	Start, Cancel = 8 * time.Second, 10 * time.Second
	// Settle is the pause between the last change of the ring and the first work on gained keys.
	Settle = 14 * time.Second
)

// view is a member's knowledge of the ring. It reads no clock: the caller passes the time. The lock of its Ring guards it.
type view struct {
	self   string
	others map[string]sight
	// past are the rings since the ring was last settled; the last one is the present ring.
	past    []members
	changed time.Time // when the ring last changed
	proof   time.Time // start of the last successful round; zero without authority
	waits   bool      // keys were gained on which work may not begin yet
	lost    int       // number of times that the authority was lost
}

// maxPast bounds the number of remembered rings while members keep changing.
const maxPast = 16

// sight records when a member was last seen alive.
type sight struct {
	version string // of its Lease
	at      time.Time
}

func newView(self string) view {
	return view{self: self, others: map[string]sight{}, past: []members{{}}}
}

// see records the Leases of the others, from a list that was just received.
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

// accept takes a finished round, begun at the time start, as the proof of the authority. alone: the list showed no other member, before or
// now. accept reports whether the ring has changed, and whether it has settled.
func (v *view) accept(start, now time.Time, alone bool) (changed, settled bool) {
	names := []string{v.self}
	for name, s := range v.others {
		if start.Sub(s.at) < Valid {
			names = append(names, name)
		}
	}
	next := newMembers(names)
	if !v.proof.IsZero() && now.Sub(v.proof) >= Start {
		v.lose() // the others may have removed us meanwhile
	}
	v.proof = start
	settled = v.settled(now)
	if next.equal(v.past[len(v.past)-1]) {
		return false, settled
	}
	v.past, v.changed, v.waits = append(v.past, next), now, true
	if len(v.past) > maxPast {
		v.past = []members{{}, next} // no key is held until the ring settles
	}
	if alone {
		v.past, v.waits = []members{next}, false
	}
	return true, settled
}

// solo reports whether this member held every key.
func (v *view) solo() bool {
	return len(v.past) == 1 && len(v.past[0].names) == 1 && v.past[0].names[0] == v.self
}

// lose ends the authority; every key must be gained again.
func (v *view) lose() {
	v.proof, v.past, v.waits = time.Time{}, []members{{}}, false
	v.lost++
}

// settled turns gained keys into held keys once the pause is over, and reports whether it just did so.
func (v *view) settled(now time.Time) bool {
	if !v.waits || now.Sub(v.changed) < Settle {
		return false
	}
	v.past, v.waits = v.past[len(v.past)-1:], false
	return true
}

// owns reports whether work on the key may begin.
func (v *view) owns(key string, now time.Time) bool {
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

// keeps reports whether this member holds the key, according to the last round.
func (v *view) keeps(key string) bool {
	return !v.proof.IsZero() && v.past[len(v.past)-1].holder(key) == v.self
}

// next returns when a counted member expires unless it renews; zero for never.
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
