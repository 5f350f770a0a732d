package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Plain prepares untrusted text for a terminal or a cell. It puts the text on one line, and removes characters that
// control a terminal or change the direction of the text. Control characters and invalid UTF-8 become �; line breaks
// and tabs become a space.
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

// Legible prepares text with untrusted parts, as Plain does, but preserves line breaks and tabs.
func Legible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// LegibleWriter returns a writer that makes all text legible. Each Write must contain complete characters.
func LegibleWriter(to io.Writer) io.Writer { return legibleWriter{to} }

type legibleWriter struct{ to io.Writer }

// Write implements io.Writer.
func (w legibleWriter) Write(b []byte) (int, error) {
	_, err := io.WriteString(w.to, Legible(string(b)))
	return len(b), err
}

// WriteJSON writes v as indented JSON. encoding/json only escapes control characters below U+0020. WriteJSON also escapes the
// others, and characters that change the direction of text, so that the terminal shows them and does not interpret them.
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

// IsControl reports whether the character can control a terminal.
func IsControl(r rune) bool { return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) }
