package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/patch"
)

// json converts operations of RFC 6902. As in the classic language, an add creates missing parent maps, and removing a missing place is
// not an error.
func (p *patching) json(source string, root location, path string) (out []string) {
	decoded, err := patch.DecodeText(source)
	if err != nil {
		for _, bare := range []bool{false, true} {
			if marked, variables := marked(source, bare); err != nil && len(variables) > 0 {
				if decoded, err = patch.DecodeText(marked); err == nil {
					decoded = unmarked(decoded, variables)
				}
			}
		}
	}
	list, ok := decoded.([]any)
	if err != nil || !ok {
		p.refuse(path, "the patch is not a literal list of operations", "")
		return nil
	}
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		m, _ := e.(map[string]any)
		op, _ := m["op"].(string)
		target, _ := m["path"].(string)
		place, ok := p.walk(root, target, at+".path")
		if !ok {
			continue
		}
		switch op {
		case "add", "replace":
			v := m["value"]
			value, some := "null", true
			switch x := v.(type) {
			case map[string]any:
				if value, some = p.literal(x, at+".value"); !some {
					value = "{}"
				}
			case nil:
			default:
				if value, some = p.literal(x, at+".value"); !some {
					continue
				}
			}
			if op == "add" {
				for _, parent := range place.parents {
					switch {
					case len(p.outer) > 0 && !p.varies(parent):
						if !slices.Contains(p.once, parent) {
							p.once = append(p.once, parent)
						}
					case !slices.Contains(out, parent): // an earlier operation may have created it
						out = append(out, parent)
					}
				}
			}
			made := place.operation(op, value)
			if op == "replace" && place.there != yes && !strings.Contains(value, place.at.text) { // of a missing place it is an error
				made = either(place.there, made, "[[]][1]")
			}
			out = append(out, made)
		case "remove":
			out = append(out, either(place.there, place.operation("remove", ""), noOperation))
		case "test": // an operation that fails makes the rule fail
			value, some := p.literal(m["value"], at+".value")
			if !some {
				value = "null"
			}
			same := and(place.there, comparison("dyn("+place.at.text+") == dyn("+value+")"))
			out = append(out, either(same, noOperation, "[[JSONPatch{op: 'test', path: "+place.pathText()+"}][1]]"))
		case "move", "copy":
			from, _ := m["from"].(string)
			source, ok := p.walk(root, from, at+".from")
			if !ok {
				continue
			}
			out = append(out, "[JSONPatch{op: '"+op+"', from: "+source.pathText()+", path: "+place.pathText()+"}]")
		default:
			p.refuse(at+".op", "the operation "+op+" is not known", "")
		}
	}
	return out
}

// varies reports whether an operation depends on the iteration of a loop.
func (p *patching) varies(operation string) bool {
	return slices.ContainsFunc(p.outer, func(l loop) bool { return mentions(operation, l.position.text) })
}

// mentions reports whether an expression contains a name.
func mentions(expression, name string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(expression)
}

// marked returns the text of a patch with marks in place of its variables, whose quotation marks may end those of the text; and the
// variables. Those that are a whole value without quotation marks, whose type only evaluation shows, stay as they are, or get the mark unquoted.
func marked(source string, bare bool) (string, []string) {
	var out strings.Builder
	var variables []string
	for _, p := range partsOf(source) {
		whole := strings.HasSuffix(out.String(), ": ")
		if p.variable == "" || whole && !bare {
			out.WriteString(p.literal)
			if p.variable != "" {
				out.WriteString("{{ " + p.variable + " }}")
			}
			continue
		}
		if whole {
			out.WriteString(unquoted)
		}
		out.WriteString("\uE002" + strconv.Itoa(len(variables)) + "\uE003")
		variables = append(variables, "{{ "+p.variable+" }}")
	}
	return out.String(), variables
}

// unquoted precedes a variable in a patch that has no quotation marks: its text is YAML.
const unquoted = "\uE004"

// unmarked returns a value with variables in place of their marks.
func unmarked(v any, variables []string) any {
	switch v := v.(type) {
	case string:
		for i, name := range variables {
			v = strings.ReplaceAll(v, "\uE002"+strconv.Itoa(i)+"\uE003", name)
		}
		return v
	case []any:
		for i := range v {
			v[i] = unmarked(v[i], variables)
		}
	case map[string]any:
		for k := range v {
			v[k] = unmarked(v[k], variables)
		}
	}
	return v
}

// walked is the result of walk: the place that a JSON pointer names.
type walked struct {
	location
	there   expr     // the condition that it exists
	parents []string // operations that create its parent maps
}

var position = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+$`) })

// walk finds the place of a JSON pointer, which may have variables for whole segments.
func (p *patching) walk(root location, pointer, path string) (walked, bool) {
	out := walked{location: root}
	segments := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	if !strings.HasPrefix(pointer, "/") || pointer == "/" {
		p.refuse(path, "the path "+strconv.Quote(pointer)+" does not name a field", "")
		return out, false
	}
	optional := root.at // the optional value of the place
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "-":
			out.location = out.with(expr{}, segment{static: "/-"}, "")
			if !last {
				p.refuse(path, "- is the end of a list", "")
				return out, false
			}
			continue
		case s == "-1" && last: // the end of a list, too
			out.location = out.with(expr{}, segment{static: "/-"}, "")
			continue
		case s == "-1": // the last element, which is added if there is none
			all := optional.text + ".orValue([])"
			index := "(size(" + all + ") > 0 ? size(" + all + ") - 1 : 0)"
			out.location = out.with(member(out.at.within(bindsMember)+"["+index+"]"), segment{static: "/"}, "")
			out.path = append(out.path, segment{dynamic: "string(" + index + ")"})
			optional = member(optional.within(bindsMember) + "[?" + index + "]")
			out.parents = append(out.parents, either(member(optional.text+".hasValue()"), noOperation, out.operation("add", "{}")))
		case position().MatchString(s):
			out.location = out.with(member(out.at.within(bindsMember)+"["+s+"]"), segment{static: "/" + s}, "")
			optional = member(optional.within(bindsMember) + "[?" + s + "]")
		case strings.Contains(s, "{{"):
			v, ok := p.operand(s, path)
			if !ok {
				return out, false
			}
			index := v.within(bindsMember)
			out.location = out.with(member(out.at.within(bindsMember)+"["+v.text+"]"), segment{static: "/"}, "")
			out.path = append(out.path, segment{dynamic: "string(" + v.text + ")"})
			if v.shape == textShape {
				out.path[len(out.path)-1] = segment{dynamic: v.within(bindsOr)} // as it is: the classic language puts the text into the pointer
			}
			optional = member(optional.within(bindsMember) + "[?" + index + "]")
		default:
			key := jsonpointer.Unescape(s)
			out.location = out.key(key)
			optional = optional.optional(key)
			if !last && segments[i+1] != "-" && segments[i+1] != "-1" && !position().MatchString(segments[i+1]) && !(i == 0 && key == "metadata") {
				out.parents = append(out.parents, either(member(optional.text+".hasValue()"), noOperation, out.operation("add", "{}")))
			} else if !last && (segments[i+1] == "-" || segments[i+1] == "-1") {
				out.parents = append(out.parents, either(member(optional.text+".hasValue()"), noOperation, out.operation("add", "[]")))
			}
		}
	}
	out.there = member(optional.text + ".hasValue()")
	return out, true
}
