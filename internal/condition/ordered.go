package condition

import (
	"cmp"
	"time"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/measure"
	"ephor.invalid/ephor/internal/value"
)

// order defines which results of a comparison satisfy an operator.
type order struct{ less, equal, greater bool }

func (o order) accepts(sign int) bool {
	switch {
	case sign < 0:
		return o.less
	case sign > 0:
		return o.greater
	}
	return o.equal
}

// prepare parses the value of GreaterThan and similar operators once for all kinds of comparison with a key.
func (o order) prepare(v any, _ bool) operand {
	b := &bound{order: o}
	switch v := v.(type) {
	case string:
		b.isText = true
		b.duration, b.isDuration = measure.Duration(v)
		b.spelled = b.isDuration && v != "0"
		b.quantity, b.isQuantity = measure.ParseQuantity(v)
		b.version, b.isVersion = measure.ParseVersion(v)
	default:
		f, ok := value.Float(v)
		if !ok {
			return never{}
		}
		b.duration, b.isDuration = seconds(f)
	}
	b.number, b.numeric = number(v)
	return b
}

// bound is the value of an ordered operator.
type bound struct {
	order
	isText     bool
	duration   time.Duration // of a text, or the number as seconds
	isDuration bool
	spelled    bool // the duration is a text other than "0"
	quantity   measure.Quantity
	isQuantity bool
	number     float64
	numeric    bool
	version    measure.Version
	isVersion  bool
}

func (b *bound) evaluateKey(m *budget.Meter, key any) (bool, error) {
	if s, ok := key.(string); ok {
		if err := m.Step(1 + measure.Steps(s)); err != nil {
			return false, err
		}
		sign, ok := b.compareText(s)
		return ok && b.accepts(sign), nil
	}
	f, ok := value.Float(key)
	if !ok {
		return false, m.Step(1)
	}
	sign, ok := b.compareNumber(f)
	return ok && b.accepts(sign), m.Step(1)
}

// compareNumber compares a number of seconds with a duration, or a number with a number.
func (b *bound) compareNumber(key float64) (sign int, ok bool) {
	if b.spelled {
		if d, ok := seconds(key); ok {
			return cmp.Compare(d, b.duration), true
		}
	}
	return cmp.Compare(key, b.number), b.numeric
}

// compareText tries durations, quantities (texts on both sides), numbers and versions, in this order.
func (b *bound) compareText(key string) (sign int, ok bool) {
	if b.isDuration {
		if d, ok := measure.Duration(key); ok && (b.spelled || key != "0") {
			return cmp.Compare(d, b.duration), true
		}
	}
	if b.isQuantity {
		if q, ok := measure.ParseQuantity(key); ok {
			return q.Cmp(b.quantity), true
		}
	}
	if f, ok := measure.Number(key); ok {
		return b.compareNumber(f) // a numeric text can be seconds, too
	}
	if b.isVersion {
		if v, ok := measure.ParseVersion(key); ok {
			return v.Cmp(b.version), true
		}
	}
	return 0, false
}

// prepareDuration parses the value of DurationGreaterThan and similar operators.
func (o order) prepareDuration(v any, _ bool) operand {
	d, ok := durationOf(v)
	if !ok {
		return never{}
	}
	return &durationBound{o, d}
}

// durationOf returns a text as a Go duration, or a number as seconds.
func durationOf(v any) (time.Duration, bool) {
	if s, ok := v.(string); ok {
		return measure.Duration(s)
	}
	f, ok := value.Float(v)
	if !ok {
		return 0, false
	}
	return seconds(f)
}

type durationBound struct {
	order
	duration time.Duration
}

func (b *durationBound) evaluateKey(m *budget.Meter, key any) (bool, error) {
	s, _ := key.(string)
	if err := m.Step(1 + measure.Steps(s)); err != nil {
		return false, err
	}
	d, ok := durationOf(key)
	return ok && b.accepts(cmp.Compare(d, b.duration)), nil
}
