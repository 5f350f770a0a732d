package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	"ephor.invalid/ephor/internal/policy"
)

// Hash is the hash of a set of Programs.
type Hash [16]byte

// String returns the hash as 32 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// toggle adds p to the set, or removes it if it is in the set. The hashes of the members are combined by exclusive or, so that a change
// costs the same for any number of Programs.
func (h *Hash) toggle(p *policy.Program) {
	sum := hashOf(p)
	for i := range h {
		h[i] ^= sum[i]
	}
}

// hashOf returns the hash of a Program: its identity, its generation, whether it audits first, the version of the API server, its labels and annotations (which affect evaluation but not the
// generation), and the exceptions of its rules. It leaves out the resource version, since a status update changes it.
func hashOf(p *policy.Program) Hash {
	var b []byte
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s))) // the length separates adjacent texts
		b = append(b, s...)
	}
	pairs := func(m map[string]string) {
		b = binary.AppendUvarint(b, uint64(len(m)))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			text(k)
			text(m[k])
		}
	}
	text(p.APIVersion)
	text(p.Kind)
	text(p.Namespace)
	text(p.Name)
	text(p.UID)
	b = binary.AppendVarint(b, p.Generation)
	if p.AuditsFirst {
		text("audits first")
	}
	b = binary.AppendUvarint(b, uint64(p.Server))
	pairs(p.Labels)
	pairs(p.Annotations)
	for _, r := range p.Rules {
		for _, e := range r.Exceptions {
			text(r.Name)
			text(e.APIVersion)
			text(e.Key())
			text(e.UID)
			b = binary.AppendVarint(b, e.Generation)
			b = binary.AppendVarint(b, int64(e.Priority)) // labels and annotations do not change the generation
			for _, set := range []bool{e.Workload, e.Audit, e.EndsSoon} {
				text(strconv.FormatBool(set))
			}
			text(e.Reason)
			text(e.Owner)
			b = binary.AppendVarint(b, e.Expires.Unix())
		}
	}
	sum := sha256.Sum256(b)
	return Hash(sum[:16])
}
