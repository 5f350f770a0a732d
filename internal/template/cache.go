package template

import (
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/jmespath"
)

// late caches the expressions that are known only at run time. Names of containers and similar texts repeat from request to
// request, so a few hundred are enough.
var late = &cache{max: 512, maxSource: 1 << 10, entries: map[string]*cachedExpr{}}

// cache is a bounded cache of compiled expressions with the clock algorithm: an entry that was used since the hand last passed
// it stays. It is safe for concurrent use.
type cache struct {
	max       int // in entries
	maxSource int // in bytes; longer expressions are not cached

	mu      sync.Mutex
	entries map[string]*cachedExpr
	ring    []*cachedExpr
	hand    int
}

type cachedExpr struct {
	key   string
	expr  *jmespath.Expr
	roots []string
	err   error
	used  bool
}

// compile compiles the query and returns its roots.
func (c *cache) compile(source string, q jmespath.Quoting) (*jmespath.Expr, []string, error) {
	if len(source) > c.maxSource {
		x, err := compileQuoting(nil, source, q)
		return x, rootsOf(x), err
	}
	key := keyOf(source, q)
	c.mu.Lock()
	if e := c.entries[key]; e != nil {
		e.used = true
		c.mu.Unlock()
		return e.expr, e.roots, e.err
	}
	c.mu.Unlock()

	e := &cachedExpr{key: strings.Clone(key)} // a copy, so that the key does not keep a larger text alive
	e.expr, e.err = compileQuoting(nil, e.key[:len(source)], q)
	e.roots = rootsOf(e.expr)

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] == nil {
		c.put(e)
	}
	return e.expr, e.roots, e.err
}

// keyOf returns the key for the query: its text, and which parts of it are data.
func keyOf(source string, q jmespath.Quoting) string {
	if len(q.Data) == 0 && !q.Names {
		return source
	}
	key := append(make([]byte, 0, len(source)+8+6*len(q.Data)), source...)
	for _, s := range q.Data {
		key = append(key, 0xff)
		key = strconv.AppendInt(key, int64(s.From), 36)
		key = append(key, 0xff)
		key = strconv.AppendInt(key, int64(s.To), 36)
	}
	if q.Names {
		key = append(key, 0xff, 0xff)
	}
	// The length marks the end of the query, which may contain any byte.
	return string(strconv.AppendInt(append(key, 0xff), int64(len(source)), 36))
}

func (c *cache) put(e *cachedExpr) {
	c.entries[e.key] = e
	if len(c.ring) < c.max {
		c.ring = append(c.ring, e)
		return
	}
	for c.ring[c.hand].used {
		c.ring[c.hand].used = false
		c.hand = (c.hand + 1) % c.max
	}
	delete(c.entries, c.ring[c.hand].key)
	c.ring[c.hand] = e
	c.hand = (c.hand + 1) % c.max
}
