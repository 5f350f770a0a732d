package decision

import "ephor.invalid/ephor/internal/value"

// finder replaces values in several texts, as withoutSecrets does. Most texts contain none of the values: one pass over such a text finds that
// no value begins in it.
type finder struct {
	values []string
	short  bool           // some values are too short for begins
	begins [1 << 8]uint64 // a bit for each hash of the first four bytes of a value
}

const finderBits = 14

// newFinder returns a finder of values; longer ones come first.
func newFinder(values []string) *finder {
	f := &finder{values: values}
	for _, v := range values {
		if len(v) < 4 {
			f.short = true
			break
		}
		h := hashed(uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16 | uint32(v[3])<<24)
		f.begins[h>>6] |= 1 << (h & 63)
	}
	return f
}

func hashed(four uint32) uint32 { return four * 2654435769 >> (32 - finderBits) }

// hide returns the text without the values.
func (f *finder) hide(text string) string {
	if len(f.values) == 0 || text == "" || len(text) < value.MaxMessage && !f.maybe(text) {
		return text
	}
	return withoutSecrets(text, f.values)
}

// maybe reports whether the text may contain one of the values.
func (f *finder) maybe(text string) bool {
	if f.short {
		return true
	}
	if len(text) < 4 {
		return false
	}
	four := uint32(text[0])<<8 | uint32(text[1])<<16 | uint32(text[2])<<24
	for i := 3; i < len(text); i++ {
		four = four>>8 | uint32(text[i])<<24
		if h := hashed(four); f.begins[h>>6]&(1<<(h&63)) != 0 {
			return true
		}
	}
	return false
}
