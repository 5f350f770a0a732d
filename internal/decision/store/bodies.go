package store

import (
	"crypto/sha256"
	"fmt"
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

// united returns the request that separate divided. keys has the keys of its bodies, where the zero value stands for none.
func united[K comparable](head *decision.Request, keys []K, found map[K]*decision.Body) (*decision.Request, error) {
	if len(keys) < 3 {
		return nil, fmt.Errorf("a request has %d bodies", len(keys))
	}
	bodies := make([]*decision.Body, len(keys))
	for i, key := range keys {
		bodies[i] = found[key]
	}
	q := *head
	q.Object, q.OldObject, q.Options = bodies[0], bodies[1], bodies[2]
	if q.Lookups != nil {
		q.Lookups = q.Lookups.WithAnswers(bodies[3:])
	}
	return &q, nil
}

// encoded appends the stored form of a body, and returns it with its key. The key is computed from the whole body, since the digest that the sender
// states may be wrong.
func encoded(b *decision.Body, room []byte) (key [16]byte, text []byte, err error) {
	text, err = b.AppendProto(room)
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16]), text, err
}

// readBodies reads the bodies of the first records, as many as fit on a page that has some bytes already, at least those of one record. It returns them, the
// number of those records, and the bytes of the page with them. rows has the keys of the bodies of each record, where the zero value stands for none. read reads
// bodies: it calls scan for each that is stored, with its length if text is false. A body that is not stored any more is empty.
func readBodies[K comparable](rows [][]K, bytes int64, read func(keys []K, text bool, scan func(key K, length int64, text []byte) error) error) (found map[K]*decision.Body, n int, _ int64, err error) {
	all := distinct(rows)
	if len(all) == 0 {
		return nil, len(rows), bytes, nil
	}
	sizes := map[K]int64{}
	if err := read(all, false, func(key K, length int64, _ []byte) error { sizes[key] = length; return nil }); err != nil {
		return nil, 0, 0, err
	}
	n, found = fitting(rows, sizes, bytes), map[K]*decision.Body{}
	keys := distinct(rows[:n])
	for _, key := range keys {
		found[key] = &decision.Body{}
		bytes += sizes[key]
	}
	err = read(keys, true, func(key K, _ int64, text []byte) error {
		found[key] = &decision.Body{}
		return found[key].MergeProto(text)
	})
	return found, n, bytes, err
}

// fitting returns how many of the records fit on a page that has some bytes already, at least one. A body that several records have is read once.
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
