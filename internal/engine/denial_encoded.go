package engine

import (
	"bytes"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// appendEncoded writes the map with the YAML encoder. This is the slow path, for messages with line breaks, control characters or non-ASCII
// letters, and for the few names that need quotes.
func appendEncoded(b []byte, lines []denial) []byte {
	byPolicy := map[string]map[string]string{}
	for _, l := range lines {
		rules := byPolicy[l.policy]
		if rules == nil {
			rules = map[string]string{}
			byPolicy[l.policy] = rules
		}
		rules[l.rule] = l.message
	}
	out := bytes.NewBuffer(b)
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	_ = enc.Encode(byPolicy) // a map of strings cannot fail to encode
	_ = enc.Close()
	return out.Bytes()
}

// compareKeys returns the order of the YAML encoder: letters after other characters, runs of digits by their number.
func compareKeys(x, y string) int {
	switch {
	case x == y:
		return 0
	case keyLess(x, y):
		return -1
	}
	return 1
}

func keyLess(x, y string) bool {
	a, b := []rune(x), []rune(y)
	inDigits := false
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			inDigits = unicode.IsDigit(a[i])
			continue
		}
		aLetter, bLetter := unicode.IsLetter(a[i]), unicode.IsLetter(b[i])
		switch {
		case aLetter && bLetter:
			return a[i] < b[i]
		case aLetter || bLetter:
			// A number that ends is smaller than one that continues; otherwise letters come last.
			if inDigits {
				return aLetter
			}
			return bLetter
		}
		var seed int64
		if a[i] == '0' || b[i] == '0' {
			// Zeros count only inside a number that has begun with another digit.
			for j := i - 1; j >= 0 && unicode.IsDigit(a[j]); j-- {
				if a[j] != '0' {
					seed = 1
					break
				}
			}
		}
		an, aEnd := number(a, i, seed)
		bn, bEnd := number(b, i, seed)
		switch {
		case an != bn:
			return an < bn
		case aEnd != bEnd:
			return aEnd < bEnd
		}
		return a[i] < b[i]
	}
	return len(a) < len(b)
}

// number reads the run of digits at i as the continuation of n and returns the index after it.
func number(s []rune, i int, n int64) (int64, int) {
	for ; i < len(s) && unicode.IsDigit(s[i]); i++ {
		n = n*10 + int64(s[i]-'0')
	}
	return n, i
}
