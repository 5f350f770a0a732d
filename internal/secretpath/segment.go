package secretpath

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"

	"ephor.invalid/ephor/internal/seal"
)

// Size is the length of a segment: HMAC-SHA256 in lowercase hex.
const Size = 2 * sha256.Size

// domain separates segments from other uses of the key.
const domain = "route"

// Epoch creates the segments of one epoch. It is safe for concurrent use.
type Epoch struct {
	id  string
	sum *seal.Summer
}

// NewEpoch returns the epoch with that ID and key.
func NewEpoch(key seal.Key, id string) *Epoch { return &Epoch{id: id, sum: key.Summer()} }

// ID identifies the epoch; it is not secret.
func (e *Epoch) ID() string { return e.id }

// String names the epoch and does not reveal the key.
func (e *Epoch) String() string { return "epoch " + e.id }

// GoString returns String().
func (e *Epoch) GoString() string { return e.String() }

// same reports whether two epochs make the same segments.
func (e *Epoch) same(other *Epoch) bool {
	return e.id == other.id && e.sum.KeyID() == other.sum.KeyID()
}

// Path returns the path for a webhook configuration: the segment in front of the plain path, which begins with a slash.
func (e *Epoch) Path(plain string) string {
	s := e.segment(plain)
	return "/" + string(s[:]) + plain
}

func (e *Epoch) segment(plain string) (out [Size]byte) {
	code := e.sum.Sum(domain, e.id, plain)
	hex.Encode(out[:], code[:])
	return out
}

// opens reports whether the segment belongs to the plain path. It takes the same time for every wrong segment.
func (e *Epoch) opens(segment, plain string) bool {
	want := e.segment(plain)
	var have [Size]byte
	copy(have[:], segment)
	return subtle.ConstantTimeCompare(want[:], have[:]) == 1
}

// Split splits a path into the segment and the plain path. ok is false if the path does not have the form of one with a segment; Split
// does not check the segment.
func Split(path string) (segment, plain string, ok bool) {
	const end = 1 + Size
	if len(path) < end+1 || path[0] != '/' || path[end] != '/' {
		return "", path, false
	}
	segment = path[1:end]
	for i := range Size {
		if c := segment[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", path, false
		}
	}
	return segment, path[end:], true
}

// Plain returns the path without the segment, if it has one, for messages.
func Plain(path string) string {
	_, plain, _ := Split(path)
	return plain
}
