package value

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// JSON returns the JSON text of v as encoding/json writes it with SetEscapeHTML(false): keys sorted, no white space.
func JSON(v any) string { return string(AppendJSON(nil, v)) }

// AppendJSON appends the text of JSON(v) to dst. A number that JSON cannot express (NaN, infinity) is written as null.
func AppendJSON(dst []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return AppendString(dst, x)
	case bool:
		return strconv.AppendBool(dst, x)
	case int64:
		return strconv.AppendInt(dst, x, 10)
	case int:
		return strconv.AppendInt(dst, int64(x), 10)
	case float64:
		return appendFloat(dst, x)
	case map[string]any:
		return appendObject(dst, x)
	case []any:
		if x == nil {
			return append(dst, "null"...)
		}
		dst = append(dst, '[')
		for i, e := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, e)
		}
		return append(dst, ']')
	}
	return appendForeign(dst, v)
}

func appendObject(dst []byte, m map[string]any) []byte {
	if m == nil {
		return append(dst, "null"...)
	}
	var few [16]string
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, k), ':')
		dst = AppendJSON(dst, m[k])
	}
	return append(dst, '}')
}

// appendForeign writes values outside the representation (a typed map, a struct), for messages and tests.
func appendForeign(dst []byte, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return append(dst, "null"...)
	}
	decoded, err := DecodeJSON(raw)
	if err != nil {
		return append(dst, "null"...)
	}
	return AppendJSON(dst, decoded)
}

// appendFloat writes a float64 as encoding/json does, which is the form of ECMAScript except for the digits of exponents.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 && (f != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	abs := math.Abs(f)
	format := byte('f')
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is written e-9
		dst = dst[:n-1]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendString appends the text of JSON(s) to dst.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if i+8 <= len(s) && specials(eight(s, i)) == 0 {
			i += 8
			continue
		}
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		char, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case char == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case char == '\u2028' || char == '\u2029': // encoding/json escapes these for JavaScript
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[char&15])
			start = i + size
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}
