package index

import (
	"maps"
	"sync"
	"sync/atomic"
)

// cache is a map that is read without a lock, and copied to add an entry. A full cache is emptied.
type cache[K comparable, V any] struct {
	mu  sync.Mutex // serializes the creation of values
	all atomic.Pointer[map[K]*V]
}

// load returns the value of the key, nil if it does not exist yet.
func (c *cache[K, V]) load(key K) *V {
	if all := c.all.Load(); all != nil {
		return (*all)[key]
	}
	return nil
}

// add creates the value of the key unless another goroutine has created it meanwhile.
func (c *cache[K, V]) add(key K, limit int, value func() *V) *V {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[K]*V{}
	if old := c.all.Load(); old != nil {
		if v := (*old)[key]; v != nil {
			return v
		}
		if len(*old) < limit {
			all = maps.Clone(*old)
		}
	}
	v := value()
	all[key] = v
	c.all.Store(&all)
	return v
}

// copyFrom copies the values of old whose keys same accepts.
func (c *cache[K, V]) copyFrom(old *cache[K, V], same func(K) bool) {
	all := old.all.Load()
	if all == nil {
		return
	}
	kept := make(map[K]*V, len(*all))
	for key, v := range *all {
		if same(key) {
			kept[key] = v
		}
	}
	c.all.Store(&kept)
}

// size returns the number of values.
func (c *cache[K, V]) size() int {
	if all := c.all.Load(); all != nil {
		return len(*all)
	}
	return 0
}
