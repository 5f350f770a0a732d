package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Plain prepares text of others for a terminal or a cell: on one line, and without what a terminal would obey or
// what changes the direction of the text. Control characters and invalid UTF-8 become �, line breaks and tabs a space.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case IsControl(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Legible prepares text that may contain text of others, as plain does, but with its lines and tabs.
func Legible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// LegibleWriter makes everything legible that is written to it; each Write has to hold whole characters.
func LegibleWriter(to io.Writer) io.Writer { return legibleWriter{to} }

type legibleWriter struct{ to io.Writer }

// Write implements io.Writer.
func (w legibleWriter) Write(b []byte) (int, error) {
	_, err := io.WriteString(w.to, Legible(string(b)))
	return len(b), err
}

// WriteJSON writes v as indented JSON. encoding/json escapes control characters below U+0020 only; the others and what changes
// the direction of text are escaped here, so that a terminal shows them instead of obeying.
func WriteJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r == '\n' || !IsControl(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	out.WriteByte('\n')
	_, err = io.WriteString(w, out.String())
	return err
}

// IsControl reports whether a terminal acts on the character.
func IsControl(r rune) bool { return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) }
