package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// variable returns a new name for the variable of a loop.
func (c *converter) variable() string { return c.fresh("e") }

// variableOf returns a new name for the elements of a list: container for those of spec.containers.
func (c *converter) variableOf(list expr) string { return c.fresh(elementName(list.text)) }

// fresh returns a name that no other loop of the rule has.
func (c *converter) fresh(name string) string {
	if c.loops == nil {
		c.loops = map[string]int{}
	}
	if c.loops[name]++; c.loops[name] > 1 {
		return name + strconv.Itoa(c.loops[name])
	}
	return name
}

// lastField finds the last field in the expression of a list.
var lastField = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\.\??([A-Za-z]+s)\b(?:\.orValue\(\[\]\)|\)|\.flatten\(\)|\])*$`)
})

// taken are names that mean something else: words that CEL reserves, the names that expressions begin with, and those of loops that have fixed names.
var taken = []string{
	"as", "break", "class", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
	"object", "oldObject", "request", "variable", "param", "image", "resource", "http", "user", "time", "hash", "list", "set", "source", "statu", "spec", "exception", "attestor", "attestation", "statement", "one", "alternative",
	"item", "binding", "subject", "key", "answer", "value", "quantity", "format", "addres", "clas", "acces",
}

// elementName returns a name for the elements of a list, from the last field in its expression; e if that has no plural.
func elementName(list string) string {
	if i := strings.Index(list, ".filter("); i > 0 && strings.HasSuffix(list, ")") { // the same elements, but fewer
		list = list[:i]
	}
	m := lastField().FindStringSubmatch(list)
	if m == nil {
		return "e"
	}
	name := m[1]
	switch {
	case strings.HasSuffix(name, "ies"):
		name = strings.TrimSuffix(name, "ies") + "y"
	case strings.HasSuffix(name, "sses"), strings.HasSuffix(name, "xes"), strings.HasSuffix(name, "ches"):
		name = strings.TrimSuffix(name, "es")
	default:
		name = strings.TrimSuffix(name, "s")
	}
	if strings.HasSuffix(name, "Container") && strings.Contains(list, " + ") {
		name = "container" // of several lists
	}
	if name == "" || slices.Contains(taken, name) || name[0] >= 'A' && name[0] <= 'Z' {
		return "e"
	}
	return name
}
