package fetch

import (
	"container/list"
	"sync"
	"time"
)

// Cache holds values until they expire. Beyond its limits it drops the values that were not used for the longest time. It is safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	Now func() time.Time
	// Entries is the maximum number of values, and Bytes of all their sizes; 0 for no limit.
	Entries, Bytes int

	mu    sync.Mutex
	known map[K]*list.Element // of *cached[K, V]
	used  list.List           // most recently used first
	bytes int
}

type cached[K comparable, V any] struct {
	key   K
	value V
	until time.Time
	bytes int
}

// Get returns the value for a key, unless it has expired.
func (c *Cache[K, V]) Get(key K) (none V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	if e == nil {
		return none, false
	}
	v := e.Value.(*cached[K, V])
	if !c.Now().Before(v.until) {
		c.drop(e)
		return none, false
	}
	c.used.MoveToFront(e)
	return v.value, true
}

// Put adds a value of a size, which expires at a time.
func (c *Cache[K, V]) Put(key K, value V, until time.Time, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[K]*list.Element{}
	}
	if e := c.known[key]; e != nil {
		c.drop(e)
	}
	c.known[key] = c.used.PushFront(&cached[K, V]{key, value, until, bytes})
	c.bytes += bytes
	for c.Entries > 0 && c.used.Len() > c.Entries || c.Bytes > 0 && c.bytes > c.Bytes {
		c.drop(c.used.Back())
	}
}

// Drop removes the values that match.
func (c *Cache[K, V]) Drop(match func(K, V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.used.Front(); e != nil; {
		next := e.Next()
		if v := e.Value.(*cached[K, V]); match(v.key, v.value) {
			c.drop(e)
		}
		e = next
	}
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.Len()
}

func (c *Cache[K, V]) drop(e *list.Element) {
	v := c.used.Remove(e).(*cached[K, V])
	delete(c.known, v.key)
	c.bytes -= v.bytes
}
