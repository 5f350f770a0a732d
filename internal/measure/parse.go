package measure

import (
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxText bounds the length of a measure in bytes; real ones have fewer than 40.
const maxText = 256

// Duration parses a Go duration such as `1h30m`, `-5s` or `0`. A bare number other than 0 has no unit and is not a duration.
func Duration(s string) (time.Duration, bool) {
	if !startsNumber(s) {
		return 0, false
	}
	switch s[len(s)-1] {
	case 's', 'm', 'h', '0': // every unit ends like this; the check avoids an error of time.ParseDuration
	default:
		return 0, false
	}
	if last := len(s) - 1; s[last] == '0' && (last > 1 || last == 1 && s[0] != '-' && s[0] != '+') {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

// Quantity is a Kubernetes quantity such as `100Mi`, `0.5` or `1e3`. The zero Quantity is 0.
type Quantity struct{ q resource.Quantity }

// ParseQuantity parses a Kubernetes quantity. Bare numbers are quantities. It rejects an exponent of more than three digits, see the
// package comment.
func ParseQuantity(s string) (Quantity, bool) {
	if !startsNumber(s) || hugeExponent(s) {
		return Quantity{}, false
	}
	q, err := resource.ParseQuantity(s)
	return Quantity{q}, err == nil
}

// QuantityOf returns the quantity of a whole number.
func QuantityOf(i int64) Quantity { return Quantity{*resource.NewQuantity(i, resource.DecimalSI)} }

// Cmp returns -1, 0 or 1 if q is less than, equal to or greater than o.
func (q Quantity) Cmp(o Quantity) int { return q.q.Cmp(o.q) }

// Number parses a decimal floating point number as Go does.
func Number(s string) (float64, bool) {
	if !startsNumber(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// Version is a semantic version.
type Version struct{ v semver.Version }

// ParseVersion parses a semantic version with exactly three numbers (`1.2.3`, `1.2.3-rc.1+build`). It rejects `v1.2.3` and `1.2`.
func ParseVersion(s string) (Version, bool) {
	if !startsNumber(s) || strings.Count(s, ".") < 2 {
		return Version{}, false
	}
	v, err := semver.Parse(s)
	return Version{v}, err == nil
}

// Cmp returns -1, 0 or 1 if v precedes, equals or follows o. It ignores build metadata.
func (v Version) Cmp(o Version) int { return v.v.Compare(o.v) }

// startsNumber reports whether s can be a measure: it begins like a number and is short enough.
func startsNumber(s string) bool {
	if s == "" || len(s) > maxText {
		return false
	}
	c := s[0]
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.'
}

func hugeExponent(s string) bool {
	i := strings.LastIndexAny(s, "eE")
	return i >= 0 && len(strings.TrimLeft(s[i+1:], "+-")) > 3
}

// Steps returns what comparing a text with a bound takes at most, in steps of package budget. It may be a quantity, a duration or a version.
func Steps(s string) int {
	if !startsNumber(s) {
		return 0
	}
	return 4 + 3*len(s)
}
