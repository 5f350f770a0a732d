package decision

// windowBodies bounds how far back a writer refers: to at least this many of the last texts, and at most twice as many. A reader keeps more,
// since several writers may share a log.
const (
	windowBodies = 2048
	keptBodies   = 32 * windowBodies
	keptBytes    = 128 << 20
)

// window holds the last values by their digests, in two generations. When the young generation is full, it replaces the old one.
type window[V any] struct {
	max, maxBytes int // of a generation
	young, old    map[string]V
	bytes         int // of young
}

// add keeps a value under its digest; bytes is its size.
func (w *window[V]) add(digest string, v V, bytes int) {
	if len(w.young) >= w.max || w.bytes+bytes > w.maxBytes {
		w.old, w.young, w.bytes = w.young, nil, 0
	}
	if w.young == nil {
		w.young = map[string]V{}
	}
	w.young[digest] = v
	w.bytes += bytes
}

// get returns a value, and whether it is known.
func (w *window[V]) get(digest string) (v V, known bool) {
	if v, known = w.young[digest]; !known {
		v, known = w.old[digest]
	}
	return v, known
}
