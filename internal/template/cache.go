package template

import (
	"strings"
	"sync"

	"github.com/ephor-dev/ephor/internal/jmespath"
)

// late holds the expressions that were only known at run time. Names of containers and the like repeat from request to
// request, so a few hundred are enough.
var late = &cache{max: 512, maxSource: 1 << 10, entries: map[string]*entry{}}

// cache is a bounded cache of compiled expressions with the clock algorithm: an entry that was used since the hand
// passed it stays. It is safe for all goroutines.
type cache struct {
	max       int // entries
	maxSource int // bytes; longer expressions are compiled each time

	mu      sync.Mutex
	entries map[string]*entry
	ring    []*entry
	hand    int
}

type entry struct {
	source string
	expr   *jmespath.Expr
	err    error
	used   bool
}

func (c *cache) compile(source string) (*jmespath.Expr, error) {
	if len(source) > c.maxSource {
		return compile(source)
	}
	c.mu.Lock()
	if e := c.entries[source]; e != nil {
		e.used = true
		c.mu.Unlock()
		return e.expr, e.err
	}
	c.mu.Unlock()

	e := &entry{source: strings.Clone(source)} // not a piece of some large text that it would keep alive
	e.expr, e.err = compile(e.source)

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[source] == nil {
		c.put(e)
	}
	return e.expr, e.err
}

func (c *cache) put(e *entry) {
	c.entries[e.source] = e
	if len(c.ring) < c.max {
		c.ring = append(c.ring, e)
		return
	}
	for c.ring[c.hand].used {
		c.ring[c.hand].used = false
		c.hand = (c.hand + 1) % c.max
	}
	delete(c.entries, c.ring[c.hand].source)
	c.ring[c.hand] = e
	c.hand = (c.hand + 1) % c.max
}
