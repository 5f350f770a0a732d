package ring

import (
	"hash/fnv"
	"slices"
)

// members are the members of a ring at one time, in the order of their names. The zero value is a ring without members.
type members struct {
	names  []string
	hashes []uint64
}

func newMembers(names []string) members {
	m := members{names: slices.Clone(names)}
	slices.Sort(m.names)
	for _, name := range m.names {
		m.hashes = append(m.hashes, hash(name))
	}
	return m
}

func (m members) equal(o members) bool { return slices.Equal(m.names, o.names) }

// holder returns the member with the highest score for the key; empty if there are no members. All replicas must compute the same holder,
// including those of the next release, so the scores must never change.
func (m members) holder(key string) string {
	k := hash(key)
	best, at := uint64(0), -1
	for i, h := range m.hashes {
		if score := mix(k ^ mix(h)); at < 0 || score > best {
			best, at = score, i
		}
	}
	if at < 0 {
		return ""
	}
	return m.names[at]
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// mix spreads each bit over all others (the finalizer of MurmurHash3): FNV alone differs little between similar names.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
