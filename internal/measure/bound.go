package measure

import (
	"cmp"
	"math"
	"strconv"
	"time"
)

// Bound is a text that was parsed once, as a duration and as a quantity, to compare values with it. The zero Bound compares with nothing.
type Bound struct {
	text       string
	duration   time.Duration
	quantity   Quantity
	isDuration bool
	isQuantity bool
}

// NewBound parses text. A text that is neither gives a Bound that compares with nothing.
func NewBound(text string) Bound {
	b := Bound{text: text}
	b.duration, b.isDuration = Duration(text)
	b.quantity, b.isQuantity = ParseQuantity(text)
	return b
}

// Text returns the text of the bound; Valid reports whether it is a duration or a quantity.
func (b Bound) Text() string { return b.text }

// Valid reports whether the bound is a duration or a quantity, so that values can compare with it.
func (b Bound) Valid() bool { return b.isDuration || b.isQuantity }

// Duration returns the bound as a duration, and whether it is one.
func (b Bound) Duration() (time.Duration, bool) { return b.duration, b.isDuration }

// Quantity returns the bound as a quantity, and whether it is one.
func (b Bound) Quantity() (Quantity, bool) { return b.quantity, b.isQuantity }

// Compare returns -1, 0 or 1 if the text s is less than, equal to or greater than the bound: as durations if both are, else as quantities
// if both are. ok is false if they cannot be compared.
func (b *Bound) Compare(s string) (sign int, ok bool) {
	r := reading{text: s}
	return b.compare(&r)
}

// reading is a text that is parsed as a duration or as a quantity when a bound needs it, at most once each.
type reading struct {
	text         string
	duration     time.Duration
	quantity     Quantity
	asDuration   bool
	asQuantity   bool
	durationRead bool
	quantityRead bool
}

func (b *Bound) compare(r *reading) (sign int, ok bool) {
	if b.isDuration {
		if !r.durationRead {
			r.duration, r.asDuration = Duration(r.text)
			r.durationRead = true
		}
		if r.asDuration {
			return cmp.Compare(r.duration, b.duration), true
		}
	}
	if b.isQuantity {
		if !r.quantityRead {
			r.quantity, r.asQuantity = ParseQuantity(r.text)
			r.quantityRead = true
		}
		if r.asQuantity {
			return r.quantity.Cmp(b.quantity), true
		}
	}
	return 0, false
}

// CompareInt is Compare for a whole number. Only 0 is also a duration.
func (b *Bound) CompareInt(i int64) (sign int, ok bool) {
	if b.isDuration && i == 0 {
		return cmp.Compare(0, b.duration), true
	}
	if b.isQuantity {
		return QuantityOf(i).Cmp(b.quantity), true
	}
	return 0, false
}

// CompareFloat is Compare for a number, in plain notation without exponent.
func (b *Bound) CompareFloat(f float64) (sign int, ok bool) {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return b.CompareInt(int64(f))
	}
	return b.Compare(strconv.FormatFloat(f, 'f', -1, 64))
}
