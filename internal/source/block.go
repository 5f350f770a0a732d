package source

import (
	"strings"
	"unicode/utf8"

	"github.com/ephor-dev/ephor/internal/budget"
)

// block reads the block style in which nearly all manifests are written: mappings and sequences by indentation, plain
// and quoted scalars on one line, literal blocks, flow collections on one line. It is many times faster than a complete
// parser because it never looks at a byte twice and shares the stream's memory for its strings. Whatever else it meets
// it gives up on, and the document is read by the complete parser: a manifest is never understood differently, only
// faster. (FuzzBlock holds the two against each other.)
type block struct {
	text    string
	numbers Numbers
	next    int  // offset of the first unread line
	tabs    bool // the text holds tabs somewhere
	line    line // the current line, not yet consumed
	have    bool
	depth   int
}

// line is the content of one line without its indentation.
type line struct {
	indent  int
	content string
}

// giveUp is panicked to leave the recursion; readBlock recovers it and nothing else.
type giveUp struct{}

// readBlock reads the document, or reports that it cannot.
func readBlock(text string, n Numbers) (v any, ok bool) {
	if !readable(text) {
		return nil, false
	}
	b := &block{text: text, numbers: n, tabs: strings.IndexByte(text, '\t') >= 0}
	defer func() {
		if p := recover(); p != nil {
			if _, mine := p.(giveUp); !mine {
				panic(p)
			}
			v, ok = nil, false
		}
	}()
	b.skipMarker()
	if !b.peek() {
		return nil, false
	}
	v = b.node(b.line.indent)
	if b.peek() {
		return nil, false
	}
	return v, true
}

// readable reports whether the text holds only what YAML calls printable, and no line end but \n.
func readable(text string) bool {
	ascii := true
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c < 0x20 && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
		if c >= utf8.RuneSelf {
			ascii = false
		}
	}
	if ascii {
		return true
	}
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if r >= 0x80 && r < 0xA0 || r == 0x2028 || r == 0x2029 || r == 0xFEFF || r == 0xFFFE || r == 0xFFFF {
			return false
		}
	}
	return true
}

// skipMarker passes the line `---`.
func (b *block) skipMarker() {
	for b.next < len(b.text) {
		l, end := b.rawLine()
		t := strings.TrimLeft(l, " ")
		if t != "" && t[0] != '#' {
			if !isMarker(l, "---") {
				return
			}
			if rest := strings.TrimLeft(l[3:], " "); rest != "" && rest[0] != '#' {
				panic(giveUp{})
			}
			b.next = end
			return
		}
		b.next = end
	}
}

// rawLine is the unread line without its end, and the offset of the line after it.
func (b *block) rawLine() (string, int) {
	rest := b.text[b.next:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		return rest[:i], b.next + i + 1
	}
	return rest, len(b.text)
}

// peek makes the next line that is neither empty nor a comment the current one.
func (b *block) peek() bool {
	if b.have {
		return true
	}
	for b.next < len(b.text) {
		l, end := b.rawLine()
		indent := 0
		for indent < len(l) && l[indent] == ' ' {
			indent++
		}
		b.next = end
		c := l[indent:]
		if c == "" || c[0] == '#' {
			continue
		}
		if b.tabs && strings.IndexByte(c, '\t') >= 0 {
			panic(giveUp{})
		}
		if indent == 0 && (isMarker(c, "---") || isMarker(c, "...") || c[0] == '%') {
			panic(giveUp{})
		}
		if c[len(c)-1] == ' ' {
			c = strings.TrimRight(c, " ")
		}
		b.line, b.have = line{indent, c}, true
		return true
	}
	return false
}

func isDash(c string) bool { return c[0] == '-' && (len(c) == 1 || c[1] == ' ') }

// node reads the mapping or sequence whose first line is the current one.
func (b *block) node(indent int) any {
	if b.depth++; b.depth > budget.MaxDepth/2 {
		panic(giveUp{})
	}
	var v any
	if isDash(b.line.content) {
		v = b.sequence(indent)
	} else {
		v = b.mapping(indent)
	}
	b.depth--
	return v
}

func (b *block) sequence(indent int) any {
	out := make([]any, 0, 4)
	for b.peek() && b.line.indent >= indent {
		c := b.line.content
		if b.line.indent > indent {
			panic(giveUp{})
		}
		if !isDash(c) {
			break // the mapping around it goes on
		}
		rest := strings.TrimLeft(c[1:], " ")
		if rest == "" || rest[0] == '#' {
			b.have = false
			if b.peek() && b.line.indent > indent {
				out = append(out, b.node(b.line.indent))
			} else {
				out = append(out, nil)
			}
			continue
		}
		if isDash(rest) || isEntry(rest) {
			// A collection that begins on the line of the dash: what is behind the dash is its first line.
			b.line = line{indent + len(c) - len(rest), rest}
			out = append(out, b.node(b.line.indent))
			continue
		}
		b.have = false
		out = append(out, b.value(rest, indent))
	}
	return out
}

// isEntry reports whether the text begins a mapping entry, `key:` or `key: value`.
func isEntry(s string) bool {
	switch s[0] {
	case '"', '\'':
		_, rest := quoted(s)
		return rest != "" && rest[0] == ':'
	case '{', '[', '|', '>':
		return false
	}
	return colon(s) >= 0
}

// colon is the index of the first colon that ends a plain key, or -1.
func colon(s string) int {
	for i := 0; i < len(s); i++ {
		j := strings.IndexByte(s[i:], ':')
		if j < 0 {
			return -1
		}
		i += j
		if i+1 == len(s) || s[i+1] == ' ' {
			return i
		}
	}
	return -1
}

func (b *block) mapping(indent int) any {
	out := make(map[string]any)
	for b.peek() && b.line.indent >= indent {
		c := b.line.content
		if b.line.indent > indent || isDash(c) {
			panic(giveUp{})
		}
		k, rest := b.entryKey(c)
		b.have = false
		n := len(out)
		out[k] = b.entryValue(rest, indent)
		if len(out) == n {
			panic(giveUp{}) // a key given twice deserves a warning, which needs the line
		}
	}
	return out
}

// entryKey reads the key and gives what follows its colon.
func (b *block) entryKey(c string) (k, rest string) {
	if c[0] == '"' || c[0] == '\'' {
		k, rest = quoted(c)
		if rest == "" || rest[0] != ':' || len(rest) > 1 && rest[1] != ' ' {
			panic(giveUp{})
		}
		return k, rest[1:]
	}
	i := colon(c)
	if i <= 0 || !startsPlain(c) || c[0] == '<' {
		panic(giveUp{})
	}
	k, rest = c[:i], c[i+1:]
	if k[i-1] == ' ' || strings.Contains(k, " #") || first[k[0]] != 0 && len(k) > 128 {
		panic(giveUp{})
	}
	if first[k[0]] != 0 {
		name, err := key(plain(k))
		if err != nil {
			panic(giveUp{})
		}
		k = name
	}
	return k, rest
}

func (b *block) entryValue(rest string, indent int) any {
	rest = strings.TrimLeft(rest, " ")
	if rest != "" && rest[0] != '#' {
		return b.value(rest, indent)
	}
	if b.peek() {
		if b.line.indent > indent {
			return b.node(b.line.indent)
		}
		if b.line.indent == indent && isDash(b.line.content) {
			if b.depth++; b.depth > budget.MaxDepth/2 {
				panic(giveUp{})
			}
			v := b.sequence(indent)
			b.depth--
			return v
		}
	}
	return nil
}

// value reads a value that stands on one line (or a literal block that begins there) in a collection of that indent.
func (b *block) value(s string, indent int) any {
	switch s[0] {
	case '"', '\'':
		v, rest := quoted(s)
		if rest != "" && !isComment(rest) {
			panic(giveUp{})
		}
		return v
	case '{', '[':
		f := flow{s: s, numbers: b.numbers}
		v := f.value(0)
		if rest := s[f.i:]; rest != "" && !isComment(rest) {
			panic(giveUp{})
		}
		return v
	case '|':
		return b.literal(s, indent)
	}
	if !startsPlain(s) {
		panic(giveUp{})
	}
	if i := strings.Index(s, " #"); i >= 0 {
		s = strings.TrimRight(s[:i], " ")
	}
	if colon(s) >= 0 {
		panic(giveUp{})
	}
	return b.scalar(s)
}

func (b *block) scalar(s string) any {
	if first[s[0]] == 0 {
		return s
	}
	v, err := b.numbers.keep(plain(s))
	if err != nil {
		panic(giveUp{})
	}
	return v
}

// isComment reports whether what follows a value is white space and then a comment.
func isComment(rest string) bool {
	t := strings.TrimLeft(rest, " ")
	return t == "" || rest[0] == ' ' && t[0] == '#'
}

// startsPlain reports whether s may be a plain scalar. A dash is one when no space follows it.
func startsPlain(s string) bool {
	switch s[0] {
	case '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
		return false
	case '-':
		return len(s) > 1 && s[1] != ' '
	}
	return true
}
