package store

import (
	"crypto/sha256"
	"slices"

	"ephor.invalid/ephor/internal/decision"
)

// The bodies of requests are stored apart from them, each once. Their order is that of separate: the object, the old object, the options, and the
// answers of the lookups.

// separate returns a request without its bodies, and the bodies; nil stands for one that the request does not have.
func separate(q *decision.Request) (*decision.Request, []*decision.Body) {
	head := *q
	bodies := append([]*decision.Body{q.Object, q.OldObject, q.Options}, q.Lookups.Answers()...)
	head.Object, head.OldObject, head.Options = nil, nil, nil
	if head.Lookups != nil {
		head.Lookups = head.Lookups.WithAnswers(nil)
	}
	return &head, bodies
}

// united returns the request that separate divided.
func united(head *decision.Request, bodies []*decision.Body) *decision.Request {
	q := *head
	q.Object, q.OldObject, q.Options = bodies[0], bodies[1], bodies[2]
	if q.Lookups != nil {
		q.Lookups = q.Lookups.WithAnswers(bodies[3:])
	}
	return &q
}

// encoded appends the stored form of a body, and returns it with its key. The key is computed from the whole body, since the digest that the sender
// states may be wrong.
func encoded(b *decision.Body, room []byte) (key [16]byte, text []byte, err error) {
	text, err = b.AppendProto(room)
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16]), text, err
}

// fitting returns how many of the records fit on a page that has some bytes already, at least one. rows has the bodies of each record, where the
// zero value stands for none; a body that several records have is read once.
func fitting[K comparable](rows [][]K, sizes map[K]int64, bytes int64) int {
	seen := map[K]bool{}
	for n, row := range rows {
		for _, b := range row {
			if !seen[b] {
				seen[b] = true
				bytes += sizes[b]
			}
		}
		if bytes > pageBytes && n > 0 {
			return n
		}
	}
	return len(rows)
}

// distinct returns the bodies of all records, each once.
func distinct[K comparable](rows [][]K) (out []K) {
	var none K
	seen := map[K]bool{none: true}
	for _, b := range slices.Concat(rows...) {
		if !seen[b] {
			seen[b], out = true, append(out, b)
		}
	}
	return out
}
