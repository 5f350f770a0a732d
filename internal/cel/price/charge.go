package price

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

// The API server's units are no upper bounds of time, and some of them are known only after the call. Therefore each call of one of the
// library's functions is charged a second time, in steps, before it is made. `go run ./bench charges` compares these charges with the time
// of the calls, for every function.

// charge returns the steps that a call takes at most. l and r are the first two arguments; r is nil if there is only one.
type charge func(s *Sizes, l, r ref.Val, more []ref.Val) int

// NodeSteps are the steps in which a node of an expression is evaluated, or a value is visited: less than 100 ns.
const NodeSteps = 10

// The bytes of text, and the elements, that a function processes in the time of one node.
const (
	copiedBytes  = 256 // bytes that are copied or compared
	scannedBytes = 32  // bytes of which each character is examined
	parsedBytes  = 8
	ReadBytes    = 64 // bytes that the functions of our own libraries read
	CopiedValues = 4  // elements that are copied or compared
)

// Steps returns the steps for n bytes or elements, of which each block takes as long as a node.
func Steps(n, block int) int { return NodeSteps * (n / block) }

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
	"cel.@mapInsert": inserts, "check": queries, "validate": validates, "semver": versions, "isSemver": versions,
	operators.Index: free, operators.OptIndex: free, operators.OptSelect: free, // on what no attribute can express
	"matches": free, "find": free, "findAll": free, "regex.extract": free, "regex.extractAll": free, "regex.replace": free, // see Searches
}

func free(*Sizes, ref.Val, ref.Val, []ref.Val) int { return 0 }

func copied(_ *Sizes, l, r ref.Val, _ []ref.Val) int {
	return Steps(length(l)+length(r), copiedBytes)
}

func scanned(_ *Sizes, l, r ref.Val, _ []ref.Val) int {
	return Steps(length(l)+length(r), scannedBytes)
}

// parsed is the charge of functions that parse a text, and of all others.
func parsed(s *Sizes, l, r ref.Val, more []ref.Val) int {
	n := sizeInBytes(l) + sizeInBytes(r)
	for _, v := range more {
		n += sizeInBytes(v)
	}
	return Steps(n, parsedBytes)
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
			n += parsedBytes + len(p.VersionStr)
		}
		return n
	case traits.Lister:
		return parsedBytes * Size(x)
	}
	return 0
}

func eachValue(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	n := elements(s, l)
	if r != nil {
		n += elements(s, r)
	}
	return NodeSteps * n
}

// elements returns the number of values in v; 0 for a single one.
func elements(s *Sizes, v ref.Val) int {
	switch v.(type) {
	case types.Int, types.Double, types.Uint, types.Bool, types.Null:
		return 0
	case traits.MutableLister: // a list under construction
		return 0
	}
	return s.Of(v) - 1
}

func added(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	if _, isList := l.(traits.Lister); isList {
		if _, building := l.(traits.MutableLister); building {
			return 0 // the loop is charged
		}
		return Steps(Size(l)+Size(r), CopiedValues)
	}
	return Steps(length(l)+length(r), copiedBytes)
}

// searchesList is the charge of the operator in: the element is compared with each one of the list.
func searchesList(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	if _, isList := r.(traits.Lister); isList {
		return compared(s, l, r)
	}
	return 0
}

// includes is the charge of the function of that name: a value is compared with each element of a list, or with a value that is no list.
func includes(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	if _, isList := l.(traits.Lister); isList {
		return compared(s, r, l)
	}
	return NodeSteps*min(elements(s, l), elements(s, r)) + Steps(min(length(l), length(r)), copiedBytes)
}

// compared is the charge for comparing a value with each element of a list. A comparison ends with the smaller value.
func compared(s *Sizes, v, list ref.Val) int {
	return NodeSteps * (Size(list) + min(Size(list)*elements(s, v), elements(s, list)))
}

// crosses is the charge for comparing each element of one list with each of another one, or of the same.
func crosses(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	if r == nil {
		r = l
	}
	return NodeSteps * min(product(Size(l), 1+elements(s, r)), product(Size(r), 1+elements(s, l)))
}

func indexes(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	if _, isList := l.(traits.Lister); isList {
		return compared(s, r, l)
	}
	return Steps(length(l)+length(r), parsedBytes) + Steps(product(length(l), length(r)), scannedBytes)
}

func sorts(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	n := Size(l)
	return Steps((1+bits.Len(uint(n)))*(elements(s, l)+n), CopiedValues)
}

func ranges(_ *Sizes, l, _ ref.Val, _ []ref.Val) int {
	n, _ := l.(types.Int)
	return NodeSteps * int(min(max(n, 0), MaxValues))
}

func runes(_ *Sizes, l, _ ref.Val, _ []ref.Val) int { return Steps(length(l), parsedBytes) }

// zoneSteps are those of reading a time zone, which is a file.
const zoneSteps = 5000

func inZone(_ *Sizes, _, r ref.Val, _ []ref.Val) int {
	if r != nil {
		return zoneSteps
	}
	return 0
}

// quantitySteps are those of calculating with quantities of the maximum length.
const quantitySteps = 500

func quantities(s *Sizes, l, r ref.Val, more []ref.Val) int {
	if _, ok := l.(apiservercel.Quantity); ok {
		return quantitySteps
	}
	return parsed(s, l, r, more)
}

// QuerySteps are those of a query to the World.
const QuerySteps = 10_000

func queries(*Sizes, ref.Val, ref.Val, []ref.Val) int { return QuerySteps }

// validates is the charge of the formats, which are regular expressions.
func validates(_ *Sizes, _, r ref.Val, _ []ref.Val) int { return 4 * NodeSteps * length(r) }

func joins(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	n := Size(l)
	made := elements(s, l) * bytesPerValue // the count is rounded up
	if r != nil {
		made += product(n, length(r))
	}
	return NodeSteps*n + Steps(made, copiedBytes)
}

// verbSteps are those of formatting one value; numbers are formatted by their language.
const verbSteps = 1500

func formats(s *Sizes, l, r ref.Val, _ []ref.Val) int {
	format, _ := l.(types.String)
	return Steps(len(format), parsedBytes) + strings.Count(string(format), "%")*verbSteps + 6*NodeSteps*elements(s, r) + Steps(Digits(string(format)), parsedBytes)
}

func replaces(_ *Sizes, l, r ref.Val, more []ref.Val) int {
	n := Steps(length(l), parsedBytes)
	if len(more) > 0 {
		times := length(l)/max(length(r), 1) + 1
		n += Steps(product(times, length(more[0])), copiedBytes)
	}
	return n
}

func splits(_ *Sizes, l, r ref.Val, _ []ref.Val) int {
	return Steps(length(l), parsedBytes) + Steps(length(l), max(length(r), 1))
}

func versions(s *Sizes, l, r ref.Val, more []ref.Val) int { return 100 + Steps(length(l), 2) }

// inserts is the charge of the loops that make maps.
func inserts(_ *Sizes, _, r ref.Val, _ []ref.Val) int {
	if m, ok := r.(traits.Mapper); ok {
		n, _ := m.Size().(types.Int)
		return 100 * int(n)
	}
	return 50
}

// product multiplies two sizes, up to a limit.
func product(a, b int) int {
	if a > 0 && b > math.MaxInt32/a {
		return math.MaxInt32
	}
	return a * b
}

// Digits returns the sum of the precisions in a format, such as %.3f.
func Digits(format string) (sum int) {
	for at := strings.Index(format, "%."); at >= 0 && sum <= MaxText; at = strings.Index(format, "%.") {
		format = format[at+2:]
		n := 0
		for n < len(format) && format[n] >= '0' && format[n] <= '9' {
			n++
		}
		if precision, err := strconv.Atoi(format[:n]); err == nil {
			sum += precision
		} else if n > 0 {
			return MaxText + 1 // a precision that is too large to parse
		}
	}
	return sum
}
