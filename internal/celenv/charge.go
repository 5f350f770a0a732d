package celenv

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// The API server's prices are not upper bounds, and some of them are known only after the call. Therefore each call of one of the library's
// functions is charged a second time, in parts of expressions (see MaxParts), before it is made. `go run ./bench charges` compares these
// charges with the time of the calls, for every function.

// charge returns what a call takes at most, in parts of expressions. l and r are the first two arguments; r is nil if there is only one.
type charge func(s *sizes, l, r ref.Val, more []ref.Val) int

// The bytes of text, and the values, that a function processes in the time in which one part of an expression is evaluated.
const (
	copiedPerPart  = 256 // bytes that are copied or compared
	scannedPerPart = 32  // bytes of which each character is examined
	parsedPerPart  = 8
	listedPerPart  = 4 // elements that are copied or compared
)

// charges are the charges of the library's functions. A function that is not in the table is charged like those that parse a text.
var charges = map[string]charge{
	operators.LogicalNot: free, operators.Negate: free, operators.Subtract: free, operators.Multiply: free, operators.Divide: free, operators.Modulo: free,
	"type": free, "dyn": free, "hasValue": free, "value": free, "optional.of": free, "optional.none": free, "first": free, "last": free,
	operators.Less: copied, operators.LessEquals: copied, operators.Greater: copied, operators.GreaterEquals: copied,
	"startsWith": copied, "endsWith": copied,
	"size": scanned, "contains": scanned, "string": scanned, "bytes": scanned, "trim": scanned, "lowerAscii": scanned, "upperAscii": scanned,
	operators.Add: added, operators.In: searchesList, "includes": includes, "format": formats, "join": joins, "replace": replaces, "split": splits,
	"indexOf": indexes, "lastIndexOf": indexes, "distinct": crosses, "sets.contains": crosses, "sets.equivalent": crosses, "sets.intersects": crosses,
	"sort": sorts, "@sortByAssociatedKeys": sorts, "isSorted": eachValue, "min": eachValue, "max": eachValue, "sum": eachValue, "flatten": eachValue,
	"reverse": eachValue, "slice": eachValue, "lists.range": ranges, "math.@max": eachValue, "math.@min": eachValue,
	"substring": runes, "charAt": runes,
	"getFullYear": inZone, "getMonth": inZone, "getDayOfYear": inZone, "getDayOfMonth": inZone, "getDate": inZone, "getDayOfWeek": inZone,
	"getHours": inZone, "getMinutes": inZone, "getSeconds": inZone, "getMilliseconds": inZone,
	"add": quantities, "sub": quantities, "compareTo": quantities, "isGreaterThan": quantities, "isLessThan": quantities,
	"asInteger": quantities, "asApproximateFloat": quantities, "isInteger": quantities, "sign": quantities,
	"cel.@mapInsert": inserts, "check": asks, "validate": validates, "semver": versions, "isSemver": versions,
	operators.Index: free, operators.OptIndex: free, operators.OptSelect: free, // on what no attribute can express
	"matches": free, "find": free, "findAll": free, "regex.extract": free, "regex.extractAll": free, "regex.replace": free, // see searching
}

// bytesPerPart is the number of bytes that a function processes in the time in which one part of an expression is evaluated.
const bytesPerPart = 64

func free(*sizes, ref.Val, ref.Val, []ref.Val) int { return 0 }

func copied(_ *sizes, l, r ref.Val, _ []ref.Val) int {
	return (length(l) + length(r)) / copiedPerPart
}

func scanned(_ *sizes, l, r ref.Val, _ []ref.Val) int {
	return (length(l) + length(r)) / scannedPerPart
}

// parsed is the charge of functions that parse a text, and of all others.
func parsed(s *sizes, l, r ref.Val, more []ref.Val) int {
	n := sizeInBytes(l) + sizeInBytes(r)
	for _, v := range more {
		n += sizeInBytes(v)
	}
	return n / parsedPerPart
}

// sizeInBytes returns the length of a text, or of the text of which a value was made.
func sizeInBytes(v ref.Val) int {
	switch x := v.(type) {
	case types.String:
		return len(x)
	case types.Bytes:
		return len(x)
	case apiservercel.URL:
		return len(x.URL.Host) + len(x.URL.Path) + len(x.URL.RawPath) + len(x.URL.RawQuery) + len(x.URL.Opaque)
	case apiservercel.Semver:
		n := 16
		for _, p := range x.Pre {
			n += parsedPerPart + len(p.VersionStr)
		}
		return n
	case traits.Lister:
		return parsedPerPart * size(x)
	}
	return 0
}

func eachValue(s *sizes, l, r ref.Val, _ []ref.Val) int {
	n := values(s, l)
	if r != nil {
		n += values(s, r)
	}
	return n
}

// values returns the number of values in v; 0 for a single one.
func values(s *sizes, v ref.Val) int {
	switch v.(type) {
	case types.Int, types.Double, types.Uint, types.Bool, types.Null:
		return 0
	case traits.MutableLister: // a list under construction
		return 0
	}
	return s.of(v) - 1
}

func added(s *sizes, l, r ref.Val, _ []ref.Val) int {
	if _, isList := l.(traits.Lister); isList {
		if _, building := l.(traits.MutableLister); building {
			return 0 // the loop is charged
		}
		return (size(l) + size(r)) / listedPerPart
	}
	return (length(l) + length(r)) / copiedPerPart
}

// searchesList is the charge of the operator in: the element is compared with each one of the list.
func searchesList(s *sizes, l, r ref.Val, _ []ref.Val) int {
	if _, isList := r.(traits.Lister); isList {
		return compared(s, l, r)
	}
	return 0
}

// includes is the charge of the function of that name: a value is compared with each element of a list, or with a value that is no list.
func includes(s *sizes, l, r ref.Val, _ []ref.Val) int {
	if _, isList := l.(traits.Lister); isList {
		return compared(s, r, l)
	}
	return min(values(s, l), values(s, r)) + min(length(l), length(r))/copiedPerPart
}

// compared is the charge for comparing a value with each element of a list. A comparison ends with the smaller value.
func compared(s *sizes, v, list ref.Val) int {
	return size(list) + min(size(list)*values(s, v), values(s, list))
}

// crosses is the charge for comparing each element of one list with each of another one, or of the same.
func crosses(s *sizes, l, r ref.Val, _ []ref.Val) int {
	if r == nil {
		r = l
	}
	return min(product(size(l), 1+values(s, r)), product(size(r), 1+values(s, l)))
}

func indexes(s *sizes, l, r ref.Val, _ []ref.Val) int {
	if _, isList := l.(traits.Lister); isList {
		return compared(s, r, l)
	}
	return (length(l)+length(r))/parsedPerPart + product(length(l), length(r))/scannedPerPart
}

func sorts(s *sizes, l, r ref.Val, _ []ref.Val) int {
	n := size(l)
	return (1 + bits.Len(uint(n))) * (values(s, l) + n) / listedPerPart
}

func ranges(_ *sizes, l, _ ref.Val, _ []ref.Val) int {
	n, _ := l.(types.Int)
	return int(min(max(n, 0), maxValues))
}

func runes(_ *sizes, l, _ ref.Val, _ []ref.Val) int { return length(l) / parsedPerPart }

// zoneParts is the cost of reading a time zone, which is a file.
const zoneParts = 500

func inZone(_ *sizes, _, r ref.Val, _ []ref.Val) int {
	if r != nil {
		return zoneParts
	}
	return 0
}

// quantityParts is the cost of calculating with quantities of the maximum length.
const quantityParts = 50

func quantities(s *sizes, l, r ref.Val, more []ref.Val) int {
	if _, ok := l.(apiservercel.Quantity); ok {
		return quantityParts
	}
	return parsed(s, l, r, more)
}

// QueryParts is the cost of a query to the World, in parts of expressions.
const QueryParts = 1000

func asks(*sizes, ref.Val, ref.Val, []ref.Val) int { return QueryParts }

// validates is the charge of the formats, which are regular expressions.
func validates(_ *sizes, _, r ref.Val, _ []ref.Val) int { return 4 * length(r) }

func joins(s *sizes, l, r ref.Val, _ []ref.Val) int {
	n := size(l)
	made := values(s, l) * bytesPerValue // the count is rounded up
	if r != nil {
		made += product(n, length(r))
	}
	return n + made/copiedPerPart
}

// verbParts is the cost of formatting one value; numbers are formatted by their language.
const verbParts = 150

func formats(s *sizes, l, r ref.Val, _ []ref.Val) int {
	format, _ := l.(types.String)
	return len(format)/parsedPerPart + strings.Count(string(format), "%")*verbParts + 6*values(s, r) + digits(string(format))/parsedPerPart
}

func replaces(_ *sizes, l, r ref.Val, more []ref.Val) int {
	n := length(l) / parsedPerPart
	if len(more) > 0 {
		times := length(l)/max(length(r), 1) + 1
		n += product(times, length(more[0])) / copiedPerPart
	}
	return n
}

func splits(_ *sizes, l, r ref.Val, _ []ref.Val) int {
	return length(l)/parsedPerPart + length(l)/max(length(r), 1)
}

func versions(s *sizes, l, r ref.Val, more []ref.Val) int { return 10 + length(l)/2 }

// inserts is the charge of the loops that make maps.
func inserts(_ *sizes, _, r ref.Val, _ []ref.Val) int {
	if m, ok := r.(traits.Mapper); ok {
		n, _ := m.Size().(types.Int)
		return 10 * int(n)
	}
	return 5
}

// product multiplies two sizes, up to a limit.
func product(a, b int) int {
	if a > 0 && b > math.MaxInt32/a {
		return math.MaxInt32
	}
	return a * b
}

// digits returns the sum of the precisions in a format, such as %.3f.
func digits(format string) (sum int) {
	for at := strings.Index(format, "%."); at >= 0 && sum <= maxText; at = strings.Index(format, "%.") {
		format = format[at+2:]
		n := 0
		for n < len(format) && format[n] >= '0' && format[n] <= '9' {
			n++
		}
		if precision, err := strconv.Atoi(format[:n]); err == nil {
			sum += precision
		} else if n > 0 {
			return maxText + 1 // a precision that is too large to parse
		}
	}
	return sum
}
