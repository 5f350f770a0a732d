package source

import (
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Numbers defines how numbers are represented.
type Numbers uint8

const (
	// Exact keeps integers as int64 and other numbers as float64, as the API server's decoder does. It is for policies.
	Exact Numbers = iota
	// Floats makes every number a float64, as Kyverno's command line does with resources.
	Floats
)

// words are the plain scalars that are booleans and nulls in YAML 1.1.
var words = map[string]any{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true,
	"true": true, "True": true, "TRUE": true,
	"on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false,
	"false": false, "False": false, "FALSE": false,
	"off": false, "Off": false, "OFF": false,
	"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
	".nan": math.NaN(), ".NaN": math.NaN(), ".NAN": math.NaN(),
	".inf": math.Inf(1), ".Inf": math.Inf(1), ".INF": math.Inf(1),
	"+.inf": math.Inf(1), "+.Inf": math.Inf(1), "+.INF": math.Inf(1),
	"-.inf": math.Inf(-1), "-.Inf": math.Inf(-1), "-.INF": math.Inf(-1),
}

// first maps the first byte of a plain scalar to what it may be: 'W' a word, 'D' a number, '.' a word or a fraction.
var first = func() (t [256]byte) {
	for _, c := range "yYnNtTfFoO~" {
		t[c] = 'W'
	}
	for _, c := range "0123456789+-" {
		t[c] = 'D'
	}
	t['.'] = '.'
	return t
}()

var styleFloat = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
})

// plain resolves an unquoted scalar: a string, bool, nil, int64, uint64 or float64.
func plain(s string) any {
	if s == "" {
		return nil
	}
	switch first[s[0]] {
	case 'W':
		if len(s) <= 5 {
			if v, ok := words[s]; ok {
				return v
			}
		}
		return s
	case '.':
		if v, ok := words[s]; ok {
			return v
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
		return s
	case 'D':
		return number(s)
	}
	return s
}

// number resolves a plain scalar that begins like a number.
func number(s string) any {
	if len(s) < 18 {
		if n, ok := digits(s); ok {
			return n
		}
	}
	if !numeric(s) {
		if v, ok := words[s]; ok { // +.inf, -.inf
			return v
		}
		return s
	}
	if isTimestamp(s) {
		return s // a time stays a text
	}
	t := s
	if strings.IndexByte(t, '_') >= 0 {
		t = strings.ReplaceAll(t, "_", "")
	}
	if n, err := strconv.ParseInt(t, 0, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(t, 0, 64); err == nil {
		return n
	}
	if styleFloat().MatchString(t) {
		if f, err := strconv.ParseFloat(t, 64); err == nil {
			return f
		}
	}
	return s
}

// digits reads a plain decimal without leading zero, by far the most frequent number.
func digits(s string) (int64, bool) {
	if s[0] == '0' {
		return 0, len(s) == 1
	}
	var n int64
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// numeric reports whether every byte of s may be part of a number, so that no attempt is made to parse names such as 10.0.0.1:80 or 5m.
func numeric(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		case c == '.', c == '_', c == '+', c == '-', c == 'x', c == 'X', c == 'o', c == 'O':
		default:
			return false
		}
	}
	return true
}

// isTimestamp reports whether YAML 1.1 would read s as a date. Only dates without a time of day occur here, since the others contain
// letters and colons, which no number has.
func isTimestamp(s string) bool {
	if len(s) < 8 || s[4] != '-' {
		return false
	}
	_, err := time.Parse("2006-1-2", s)
	return err == nil
}

// convert converts a resolved scalar to the chosen representation. Infinity and NaN have no JSON form.
func (n Numbers) convert(v any) (any, error) {
	switch x := v.(type) {
	case int64:
		if n == Floats {
			return float64(x), nil
		}
	case uint64:
		return float64(x), nil // as JSON decoding does with integers beyond int64
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%v has no JSON form", x)
		}
		if n == Exact && x == math.Trunc(x) && math.Abs(x) < 1e21 {
			// 1.0 and 1e3 are whole: their JSON text is that of an integer, which decodes to an integer.
			if i, err := strconv.ParseInt(strconv.FormatFloat(x, 'f', -1, 64), 10, 64); err == nil {
				return i, nil
			}
		}
	}
	return v, nil
}

// key returns the JSON name for a resolved mapping key.
func key(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case bool:
		return strconv.FormatBool(x), nil
	case int64:
		return strconv.FormatInt(x, 10), nil
	case float64:
		switch s := strconv.FormatFloat(x, 'g', -1, 32); s {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return s, nil
		}
	case nil:
		return "", fmt.Errorf("a key of a mapping is empty")
	}
	return "", fmt.Errorf("a key of a mapping must be text, a number or a boolean")
}

// tagged resolves a scalar with one of YAML's own tags.
func tagged(tag, text string) (any, error) {
	switch tag {
	case "!!str":
		return text, nil
	case "!!binary":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return nil, fmt.Errorf("!!binary value contains invalid base64 data")
		}
		return strings.ToValidUTF8(string(b), "\uFFFD"), nil
	}
	v := plain(text)
	ok := true
	switch tag {
	case "!!bool":
		_, ok = v.(bool)
	case "!!null":
		ok = v == nil
	case "!!int":
		switch v.(type) {
		case int64, uint64:
		default:
			ok = false
		}
	case "!!float":
		switch x := v.(type) {
		case int64:
			v = float64(x)
		case float64:
		default:
			ok = false
		}
	default: // a custom tag: only the text counts
		return text, nil
	}
	if !ok {
		return nil, fmt.Errorf("cannot decode `%s` as a %s", text, tag)
	}
	return v, nil
}
