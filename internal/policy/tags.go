package policy

import "sync"

// Tags holds the digests that tags of images stand for in one review. Each tag is looked up once, so that everything that the review
// verifies, records and writes is about the same content, wherever the tag points to by then.
type Tags struct {
	mu      sync.Mutex
	digests map[string]string
}

// Digest returns the digest that is known for the key, or the one that find returns. Failures are not kept.
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
		return known, nil // another goroutine was first
	}
	if t.digests == nil {
		t.digests = map[string]string{}
	}
	t.digests[key] = found
	return found, nil
}

// Tags returns the digests of the review. All requests that WithObject makes of this one share them.
func (r *Request) Tags() *Tags {
	if t := r.tags.Load(); t != nil {
		return t
	}
	r.tags.CompareAndSwap(nil, &Tags{})
	return r.tags.Load()
}
