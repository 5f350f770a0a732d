package decision

// windowBodies bounds how far back a writer refers: to the last texts, at least so many and at most twice as many. A reader keeps more, since
// a log may be that of several writers.
const (
	windowBodies = 2048
	keptBodies   = 32 * windowBodies
	keptBytes    = 128 << 20
)

// window holds the last values by their digests, in two generations: when one is full, the one before is dropped.
type window[V any] struct {
	max, maxBytes int // of a generation
	young, old    map[string]V
	bytes         int // of young
}

// add keeps a value of so many bytes under its digest.
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
