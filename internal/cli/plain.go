package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// plain prepares text of others for a terminal or a cell: on one line, and without what a terminal would obey or
// what changes the direction of the text. Control characters and invalid UTF-8 become �, line breaks and tabs a space.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case obeyed(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// legible prepares text that may contain text of others, as plain does, but with its lines and tabs.
func legible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && obeyed(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// legibleWriter makes everything legible that is written to it; each Write has to hold whole characters.
type legibleWriter struct{ to io.Writer }

// Write implements io.Writer.
func (w legibleWriter) Write(b []byte) (int, error) {
	_, err := io.WriteString(w.to, legible(string(b)))
	return len(b), err
}

// writeJSON writes v as indented JSON. encoding/json escapes control characters below U+0020 only; the others and what changes
// the direction of text are escaped here, so that a terminal shows them instead of obeying.
func writeJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r == '\n' || !obeyed(r) {
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

// obeyed tells characters that a terminal acts on.
func obeyed(r rune) bool { return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) }
