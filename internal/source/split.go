package source

import (
	"strings"
)

// Document is one document of a stream, not yet decoded.
type Document struct {
	File string
	Line int // of the first line that is neither empty nor a comment
	base int // the line before the text's first
	text string
	// json: the text is one JSON value.
	json bool
}

// Split splits a stream into its documents: YAML at the lines that begin with `---`, JSON after each value. It omits documents without
// content. name becomes the name of the documents.
func Split(name, stream string) []Document {
	stream = strings.TrimPrefix(stream, "\uFEFF")
	var out []Document
	line := 0 // number of lines before the rest
	rest := stream
	for rest != "" {
		if c := firstByte(rest); c == '{' || c == '[' {
			if n := jsonEnd(rest); n > 0 {
				out = appendDocument(out, Document{File: name, base: line, text: rest[:n], json: true})
				line += strings.Count(rest[:n], "\n")
				rest = rest[n:]
				continue
			}
		}
		n := yamlEnd(rest)
		out = appendDocument(out, Document{File: name, base: line, text: rest[:n]})
		line += strings.Count(rest[:n], "\n")
		rest = rest[n:]
	}
	return out
}

// appendDocument adds d unless it is empty.
func appendDocument(out []Document, d Document) []Document {
	d.Line = d.base + 1
	text := d.text
	for text != "" {
		l, rest, _ := strings.Cut(text, "\n")
		t := strings.TrimSpace(l)
		if isMarker(l, "---") {
			t = strings.TrimSpace(l[3:])
		} else if isMarker(l, "...") || strings.HasPrefix(l, "%") {
			t = ""
		}
		if t != "" && t[0] != '#' {
			return append(out, d)
		}
		d.Line++
		text = rest
	}
	return out
}

func firstByte(s string) byte {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return s[i]
		}
	}
	return 0
}

// isMarker reports whether the line is the document marker m, possibly followed by other text.
func isMarker(line, m string) bool {
	return strings.HasPrefix(line, m) && (len(line) == len(m) || line[len(m)] == ' ' || line[len(m)] == '\t' || line[len(m)] == '\r')
}

// yamlEnd returns the end of the document at the beginning of s: before the next line with a marker. A marker on the first line, or
// after only directives, empty lines and comments, opens the document itself.
func yamlEnd(s string) int {
	open := true // only directives, comments and empty lines so far
	for i := 0; i < len(s); {
		end := strings.IndexByte(s[i:], '\n')
		next := i + end + 1
		if end < 0 {
			next = len(s)
		}
		line := strings.TrimSuffix(s[i:next], "\n")
		switch {
		case isMarker(line, "---"):
			if !open {
				return i
			}
			open = false
		case isMarker(line, "..."):
			return next
		case open:
			t := strings.TrimSpace(line)
			open = t == "" || t[0] == '#' || line[0] == '%'
		}
		// Lines of a manifest rarely begin with a marker: skip to the next one that may.
		i = next
		if !open {
			if i < len(s) && s[i] != '-' && s[i] != '.' {
				j := nextMarker(s[i:])
				if j < 0 {
					return len(s)
				}
				i += j
			}
		}
	}
	return len(s)
}

// nextMarker returns the index of the next line that begins with --- or ..., or -1.
func nextMarker(s string) int {
	a := strings.Index(s, "\n---")
	if a >= 0 {
		s = s[:a]
	}
	if b := strings.Index(s, "\n..."); b >= 0 {
		return b + 1
	}
	if a >= 0 {
		return a + 1
	}
	return -1
}

// jsonEnd returns the end of the JSON value at the beginning of s, including white space on both sides. It returns 0 if s does not
// begin with one complete value that is followed by nothing, by another JSON value, or by a document marker. Then the text is YAML in
// flow style, or broken.
func jsonEnd(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\n':
			if strings.HasPrefix(s[i+1:], "---") {
				return 0
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth > 0 {
				continue
			}
			if depth < 0 {
				return 0
			}
			end := i + 1
			after := strings.TrimLeft(s[end:], " \t\r\n")
			if after == "" {
				return len(s)
			}
			gap := s[end : len(s)-len(after)]
			switch {
			case after[0] == '{' || after[0] == '[':
				return len(s) - len(after)
			case strings.Contains(gap, "\n") && (strings.HasPrefix(after, "---") || strings.HasPrefix(after, "...")):
				return len(s) - len(after)
			}
			return 0
		case '"':
			i++
			for i < len(s) && s[i] != '"' {
				if s[i] == '\n' {
					return 0 // not JSON: its strings contain no unescaped line ends
				}
				if s[i] == '\\' {
					i++
				}
				i++
			}
		}
	}
	return 0
}

// Size returns the length of the document's text in bytes.
func (d Document) Size() int { return len(d.text) }

// MayHold reports whether the document may contain an object of the kind. It is cheap: it searches for the word, and for escapes with
// which the word may be written. Only Decode gives a certain result.
func (d Document) MayHold(kind string) bool {
	return strings.Contains(d.text, kind) || strings.Contains(d.text, `\`)
}
