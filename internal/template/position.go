package template

import (
	"strconv"
	"strings"
)

// position is the position of a string in the compiled value.
type position struct {
	path  string // for error messages: /spec/containers/0/image
	query string // the same place as a JMESPath suffix, for `@`: .spec.containers[0].image
	depth int
}

func (p position) key(k string) position {
	return position{path: p.path + "/" + k, query: p.query + "." + identifier(bare(k)), depth: p.depth + 1}
}

func (p position) index(i int) position {
	n := strconv.Itoa(i)
	return position{path: p.path + "/" + n, query: p.query + "[" + n + "]", depth: p.depth + 1}
}

// bare returns the key without its anchor: `@` below `=(image)` means the value of image.
func bare(k string) string {
	if !strings.HasSuffix(k, ")") {
		return k
	}
	open := strings.IndexByte(k, '(')
	switch k[:max(open, 0)] {
	case "", "=", "+", "^", "X", "<":
		if open >= 0 {
			return k[open+1 : len(k)-1]
		}
	}
	return k
}

// identifier returns a key as a JMESPath identifier, quoted if necessary.
func identifier(k string) string {
	for i := 0; i < len(k); i++ {
		c := k[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return quoteIdentifier(k)
		}
	}
	if k == "" {
		return `""`
	}
	return k
}

func quoteIdentifier(k string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range k {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			b.WriteString(`\u00`)
			b.WriteByte("0123456789abcdef"[r>>4])
			b.WriteByte("0123456789abcdef"[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
