package measure

// Range is `a-b`, all values from a to b including both, or `a!-b`, all values below a or above b.
type Range struct {
	Low, High Bound
	Outside   bool // written with `!-`
}

// ParseRange parses a range. Both ends must look like a number with an optional sign and unit letters (`[-+]?digits[.digits][letters]`):
// `-10--8`, `2.5-3.5`, `100Mi!-1024Mi`. Any other text, such as `5.10.84-1`, is not a range.
func ParseRange(s string) (Range, bool) {
	if len(s) > 2*maxText {
		return Range{}, false
	}
	n := boundLength(s)
	if n == 0 || n == len(s) {
		return Range{}, false
	}
	low, rest := s[:n], s[n:]
	outside := rest[0] == '!'
	if outside {
		rest = rest[1:]
	}
	if rest == "" || rest[0] != '-' {
		return Range{}, false
	}
	high := rest[1:]
	if n := boundLength(high); n == 0 || n != len(high) {
		return Range{}, false
	}
	return Range{Low: NewBound(low), High: NewBound(high), Outside: outside}, true
}

// boundLength returns the length of the bound at the beginning of s; 0 if there is none.
func boundLength(s string) int {
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	start := i
	for i < len(s) && digit(s[i]) {
		i++
	}
	if i == start {
		return 0
	}
	if i+1 < len(s) && s[i] == '.' && digit(s[i+1]) {
		i++
		for i < len(s) && digit(s[i]) {
			i++
		}
	}
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z') {
		i++
	}
	return i
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// Contains reports whether the text s lies in the range. Text that cannot be compared with a bound is in no range.
func (r *Range) Contains(s string) bool {
	read := reading{text: s}
	low, okLow := r.Low.compare(&read)
	high, okHigh := r.High.compare(&read)
	return r.evaluate(low, okLow, high, okHigh)
}

// ContainsInt is Contains for a whole number.
func (r *Range) ContainsInt(i int64) bool {
	low, okLow := r.Low.CompareInt(i)
	high, okHigh := r.High.CompareInt(i)
	return r.evaluate(low, okLow, high, okHigh)
}

// ContainsFloat is Contains for a number.
func (r *Range) ContainsFloat(f float64) bool {
	low, okLow := r.Low.CompareFloat(f)
	high, okHigh := r.High.CompareFloat(f)
	return r.evaluate(low, okLow, high, okHigh)
}

func (r *Range) evaluate(low int, okLow bool, high int, okHigh bool) bool {
	if r.Outside {
		return okLow && low < 0 || okHigh && high > 0
	}
	return okLow && low >= 0 && okHigh && high <= 0
}
