package source

import (
	"strings"
)

// quoted reads the quoted scalar that begins s and gives what follows it. It gives up on scalars that go on over the
// end of the line and on the rarer escapes.
func quoted(s string) (v, rest string) {
	if s[0] == '\'' {
		return singleQuoted(s)
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return s[1:i], s[i+1:]
		case '\\':
			return escaped(s, i)
		}
	}
	panic(giveUp{})
}

func singleQuoted(s string) (v, rest string) {
	doubled := false
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '\'' {
			doubled = true
			i++
			continue
		}
		v = s[1:i]
		if doubled {
			v = strings.ReplaceAll(v, "''", "'")
		}
		return v, s[i+1:]
	}
	panic(giveUp{})
}

// escaped goes on with a double-quoted scalar at its first backslash.
func escaped(s string, i int) (v, rest string) {
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[1:i])
	for ; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), s[i+1:]
		case '\\':
			i++
			if i == len(s) {
				panic(giveUp{})
			}
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case '"', '\\', '/':
				b.WriteByte(s[i])
			default:
				panic(giveUp{})
			}
		default:
			b.WriteByte(c)
		}
	}
	panic(giveUp{})
}

// literal reads the lines of a block that `|` opens in a collection of the given indent.
func (b *block) literal(header string, parent int) any {
	if header != "|" && header != "|-" && header != "|+" {
		panic(giveUp{})
	}
	start := b.next
	indent := -1
	end := start // behind the last line that is not empty
	for b.next < len(b.text) {
		l, next := b.rawLine()
		n := 0
		for n < len(l) && l[n] == ' ' {
			n++
		}
		if n < len(l) {
			if indent < 0 {
				if n <= parent || l[n] == '\t' {
					panic(giveUp{})
				}
				indent = n
			}
			if n < indent {
				break
			}
			if next == len(b.text) && b.text[next-1] != '\n' {
				panic(giveUp{}) // the last line of the stream has no end
			}
			end = next
		} else if indent < 0 && n > parent {
			panic(giveUp{}) // white space before the first line may be content
		} else if next == len(b.text) && b.text[next-1] != '\n' {
			panic(giveUp{})
		}
		b.next = next
	}
	if indent < 0 {
		panic(giveUp{})
	}
	lines := b.text[start:end]
	if header == "|+" {
		lines = b.text[start:b.next]
	}
	var out strings.Builder
	out.Grow(len(lines))
	for lines != "" {
		l, rest, _ := strings.Cut(lines, "\n")
		if len(l) > indent {
			out.WriteString(l[indent:])
		}
		out.WriteByte('\n')
		lines = rest
	}
	s := out.String()
	if header == "|-" {
		s = strings.TrimSuffix(s, "\n")
	}
	// Empty lines that hold more white space than the block's indentation are content.
	if tail := b.text[end:b.next]; header != "|+" && strings.Contains(tail, strings.Repeat(" ", indent+1)) {
		panic(giveUp{})
	}
	return s
}

// flow reads a collection in flow style that stands on one line.
type flow struct {
	s       string
	i       int
	numbers Numbers
}

func (f *flow) spaces() {
	for f.i < len(f.s) && f.s[f.i] == ' ' {
		f.i++
	}
	if f.i == len(f.s) {
		panic(giveUp{})
	}
}

func (f *flow) value(depth int) any {
	if depth > 100 {
		panic(giveUp{})
	}
	switch f.s[f.i] {
	case '{':
		return f.mapping(depth)
	case '[':
		return f.sequence(depth)
	case '"', '\'':
		return f.quoted()
	}
	s := f.plain()
	v, err := f.numbers.keep(plain(s))
	if err != nil {
		panic(giveUp{})
	}
	return v
}

func (f *flow) quoted() string {
	v, rest := quoted(f.s[f.i:])
	f.i = len(f.s) - len(rest)
	return v
}

// plain reads up to a separator. Text with a colon, a question mark or a hash is left to the complete parser.
func (f *flow) plain() string {
	rest := f.s[f.i:]
	if !startsPlain(rest) {
		panic(giveUp{})
	}
	n := strings.IndexAny(rest, ",]}:?#[{\"'")
	if n <= 0 || rest[n] != ',' && rest[n] != ']' && rest[n] != '}' && rest[n] != ':' {
		panic(giveUp{})
	}
	f.i += n
	return strings.TrimRight(rest[:n], " ")
}

func (f *flow) sequence(depth int) any {
	out := []any{}
	f.i++
	for {
		f.spaces()
		if f.s[f.i] == ']' {
			f.i++
			return out
		}
		out = append(out, f.value(depth+1))
		f.spaces()
		switch f.s[f.i] {
		case ',':
			f.i++
		case ']':
		default:
			panic(giveUp{})
		}
	}
}

func (f *flow) mapping(depth int) any {
	out := map[string]any{}
	f.i++
	for {
		f.spaces()
		if f.s[f.i] == '}' {
			f.i++
			return out
		}
		k := f.key()
		if !strings.HasPrefix(f.s[f.i:], ": ") {
			panic(giveUp{})
		}
		f.i++
		f.spaces()
		n := len(out)
		out[k] = f.value(depth + 1)
		if len(out) == n {
			panic(giveUp{})
		}
		f.spaces()
		switch f.s[f.i] {
		case ',':
			f.i++
		case '}':
		default:
			panic(giveUp{})
		}
	}
}

func (f *flow) key() string {
	if c := f.s[f.i]; c == '"' || c == '\'' {
		return f.quoted()
	}
	s := f.plain()
	if s == "<<" {
		panic(giveUp{})
	}
	k, err := key(plain(s))
	if err != nil {
		panic(giveUp{})
	}
	return k
}
