package value

import (
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text reads a string literal. Without escapes it is a slice of the input; the scan checks eight bytes at once, since most bytes of a
// Kubernetes object are inside strings.
func (r *Reader) text() (string, error) { return r.literalText(true) }

// literalText is text; if wanted is false, it only checks the literal and returns an arbitrary text.
func (r *Reader) literalText(wanted bool) (string, error) {
	b, start := r.s, r.i+1
	ascii := true
	for i := start; ; i++ {
		if i+8 <= len(b) {
			special := specials(eight(b, i))
			if special == 0 {
				i += 7
				continue
			}
			i += bits.TrailingZeros64(special) / 8
		} else if i >= len(b) {
			return "", r.unexpectedEnd()
		}
		switch c := b[i]; {
		case c == '"':
			r.i = i + 1
			if s := b[start:i]; ascii || !wanted || utf8.ValidString(s) {
				return s, nil
			}
			return r.unescape(start, wanted)
		case c == '\\':
			return r.unescape(start, wanted)
		case c < 0x20:
			return "", r.invalid(i, "in string literal")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
}

// specials sets the high bit of each byte of w that is below 0x20, a quote, a backslash, or not ASCII. It may also set the high bit of a
// byte above such a byte.
func specials(w uint64) uint64 {
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash | w) & highs
}

// eight returns the eight bytes of s from i on.
func eight(s string, i int) uint64 {
	_ = s[i+7]
	return uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
		uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
}

// unescape reads a string literal that begins at start and has escapes or invalid UTF-8. If wanted is false, it only checks it.
func (r *Reader) unescape(start int, wanted bool) (string, error) {
	b, i := r.s, start
	out := make([]byte, 0, 64)
	for {
		if !wanted {
			out = out[:0]
		}
		if i >= len(b) {
			return "", r.unexpectedEnd()
		}
		switch c := b[i]; {
		case c == '"':
			r.i = i + 1
			return string(out), nil
		case c < 0x20:
			return "", r.invalid(i, "in string literal")
		case c == '\\':
			i++
			if i >= len(b) {
				return "", r.invalid(i, "in string escape code")
			}
			switch e := b[i]; e {
			case '"', '\\', '/':
				out = append(out, e)
			case 'b':
				out = append(out, '\b')
			case 'f':
				out = append(out, '\f')
			case 'n':
				out = append(out, '\n')
			case 'r':
				out = append(out, '\r')
			case 't':
				out = append(out, '\t')
			case 'u':
				char, err := r.hex4(i + 1)
				if err != nil {
					return "", err
				}
				i += 4
				if utf16.IsSurrogate(char) {
					// A surrogate pair is one character; half a pair is U+FFFD, and the next character is read separately.
					low := rune(-1)
					if i+2 < len(b) && b[i+1] == '\\' && b[i+2] == 'u' {
						if low, err = r.hex4(i + 3); err != nil {
							return "", err
						}
					}
					if char = utf16.DecodeRune(char, low); char != utf8.RuneError {
						i += 6
					}
				}
				out = utf8.AppendRune(out, char)
			default:
				return "", r.invalid(i, "in string escape code")
			}
			i++
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			char, size := utf8.DecodeRuneInString(b[i:])
			out = utf8.AppendRune(out, char)
			i += size
		}
	}
}

func (r *Reader) hex4(i int) (rune, error) {
	var n rune
	for k := i; k < i+4; k++ {
		if k >= len(r.s) {
			return 0, r.invalid(k, `in \u hexadecimal character escape`)
		}
		c := r.s[k]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, r.invalid(k, `in \u hexadecimal character escape`)
		}
		n = n<<4 | rune(c)
	}
	return n, nil
}
