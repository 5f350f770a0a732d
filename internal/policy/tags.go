package policy

import "sync"

// Tags holds the digests of image tags in one review. Each tag is resolved once, so that the review verifies, records and writes the same
// content, even if the tag moves in the meantime.
type Tags struct {
	mu      sync.Mutex
	digests map[string]string
}

// Digest returns the known digest for the key, or else the result of find. Failures are not kept.
func (t *Tags) Digest(key string, find func() (string, error)) (string, error) {
	t.mu.Lock()
	known := t.digests[key]
	t.mu.Unlock()
	if known != "" {
		return known, nil
	}
	found, err := find()
	if err != nil || found == "" {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.digests[key]; known != "" {
		return known, nil // another goroutine was faster
	}
	if t.digests == nil {
		t.digests = map[string]string{}
	}
	t.digests[key] = found
	return found, nil
}

// Tags returns the digests of the review. The requests returned by WithObject share them.
func (r *Request) Tags() *Tags {
	if t := r.tags.Load(); t != nil {
		return t
	}
	r.tags.CompareAndSwap(nil, &Tags{})
	return r.tags.Load()
}
