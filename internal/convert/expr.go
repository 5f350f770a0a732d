package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// expr is a CEL expression with the information needed to embed it in another one.
type expr struct {
	text  string
	binds binding
}

// binding is the precedence of the outermost operator of an expression.
type binding int

const (
	bindsTernary binding = iota
	bindsOr
	bindsAnd
	bindsComparison
	bindsUnary
	bindsMember
)

var (
	yes = expr{"true", bindsMember}
	no  = expr{"false", bindsMember}
)

func member(text string) expr     { return expr{text, bindsMember} }
func comparison(text string) expr { return expr{text, bindsComparison} }

// within returns e as an operand of an operator with the precedence b, in parentheses if necessary.
func (e expr) within(b binding) string {
	if e.binds < b {
		return "(" + e.text + ")"
	}
	return e.text
}

// atom returns e as an operand of any operator.
func (e expr) atom() expr { return member(e.within(bindsMember)) }

// and joins conditions with &&. It omits those that are always true.
func and(all ...expr) expr { return join(all, yes, no, " && ", bindsAnd) }

// or joins alternatives with ||. It omits those that are always false.
func or(all ...expr) expr { return join(all, no, yes, " || ", bindsOr) }

func join(all []expr, neutral, decisive expr, operator string, b binding) expr {
	var texts []string
	var only expr
	for _, e := range all {
		switch e {
		case neutral:
		case decisive:
			return decisive
		default:
			if text := e.within(b); !slices.Contains(texts, text) {
				texts, only = append(texts, text), e
			}
		}
	}
	switch len(texts) {
	case 0:
		return neutral
	case 1:
		return only
	}
	return expr{strings.Join(texts, operator), b}
}

// not negates e.
func not(e expr) expr {
	switch e {
	case yes:
		return no
	case no:
		return yes
	}
	if rest, ok := strings.CutPrefix(e.text, "!"); ok && e.binds == bindsUnary && !strings.HasPrefix(rest, "=") {
		if strings.HasPrefix(rest, "(") {
			return expr{rest, bindsMember}
		}
		return member(rest)
	}
	if e.binds == bindsComparison {
		if at := outer(e.text, " == "); len(at) == 1 && len(outer(e.text, " != ")) == 0 {
			return comparison(e.text[:at[0]] + " != " + e.text[at[0]+4:])
		} else if not := outer(e.text, " != "); len(not) == 1 && len(at) == 0 {
			return comparison(e.text[:not[0]] + " == " + e.text[not[0]+4:])
		}
	}
	return expr{"!" + e.within(bindsMember), bindsUnary}
}

// outer returns the places of an operator in an expression, except in parentheses, brackets, braces and literals.
func outer(text, operator string) (at []int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], operator):
			at = append(at, i)
		}
	}
	return at
}

// text returns a CEL string literal.
func text(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\u` + strconv.FormatInt(0x10000+int64(r), 16)[1:])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// list returns a CEL list of strings.
func list(all []string) string {
	parts := make([]string, len(all))
	for i, s := range all {
		parts[i] = text(s)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// reserved are the CEL keywords that cannot be field names.
var reserved = []string{"false", "in", "null", "true"}

// plain reports whether a key can follow a dot.
func plain(key string) bool { return identifier().MatchString(key) && !slices.Contains(reserved, key) }

// field returns the value of a key of the map e.
func (e expr) field(key string) expr {
	if plain(key) {
		return member(e.within(bindsMember) + "." + key)
	}
	return member(e.within(bindsMember) + "[" + text(key) + "]")
}

// optional returns the value of a key of e, which may be an optional value, as an optional value.
func (e expr) optional(key string) expr {
	if plain(key) {
		return member(e.within(bindsMember) + ".?" + key)
	}
	return member(e.within(bindsMember) + "[?" + text(key) + "]")
}

// subject is the object of a request, or the deleted one. Autogen rewrites the literal text object.spec in it, too.
const subject = "variables.object"

// isObject reports whether an expression is the object of the request.
func isObject(e expr) bool { return e.text == "object" || e.text == subject }

// has reports whether the map e has a key.
func (e expr) has(key string) expr {
	if key == "items" && strings.HasPrefix(e.text, "dyn(resource.list(") {
		return yes
	}
	if e.text == "request" && (key == "operation" || key == "userInfo" || key == "kind" || key == "resource") {
		return yes
	}
	if isObject(e) && (key == "metadata" || key == "apiVersion" || key == "kind") {
		return yes
	}
	if plain(key) {
		return member("has(" + e.within(bindsMember) + "." + key + ")")
	}
	return comparison(text(key) + " in " + e.within(bindsMember))
}

// macro calls all, exists or another macro of a list.
func (e expr) macro(name, variable string, body expr) expr {
	return member(e.within(bindsMember) + "." + name + "(" + variable + ", " + body.text + ")")
}
