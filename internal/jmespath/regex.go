package jmespath

import (
	"fmt"
	"regexp"
	"sync"

	"ephor.invalid/ephor/internal/compilecost"
)

// maxRegex bounds the length of a regular expression; the longest in public policies has some 700 bytes.
const maxRegex = 16 << 10

// maxProgram bounds the compiled size of a regular expression: a{1000} is short, but has a thousand instructions.
const maxProgram = 8000

// maxMatches bounds the number of matches that are replaced.
const maxMatches = 1 << 17

// maxRegexes bounds the cache of expressions that are not literals: an evaluation usually repeats a few.
const maxRegexes = 256

// pattern is a compiled regular expression.
type pattern struct {
	*regexp.Regexp
	size compilecost.Regular
}

var regexes struct {
	sync.RWMutex
	byText map[string]*pattern
}

// compileRegex compiles a regular expression, or takes it from the cache. A full cache is emptied: that is cheaper than
// maintaining an order, and the few expressions that live policies build from data soon return.
func compileRegex(env *Env, text string) (*pattern, error) {
	if len(text) > maxRegex {
		return nil, fmt.Errorf("%w: a regular expression of %d bytes", ErrTooLarge, len(text))
	}
	regexes.RLock()
	re := regexes.byText[text]
	regexes.RUnlock()
	if re != nil {
		return re, nil
	}
	re, err := newPattern(env, text)
	if err != nil {
		return nil, err
	}
	regexes.Lock()
	defer regexes.Unlock()
	if regexes.byText == nil || len(regexes.byText) >= maxRegexes {
		regexes.byText = map[string]*pattern{}
	}
	regexes.byText[text] = re
	return re, nil
}

// newPattern compiles a regular expression after it has determined its size, and charges for both before. env may be nil.
func newPattern(env *Env, text string) (*pattern, error) {
	if env != nil {
		if err := env.steps(compilecost.Reading(text).Steps()); err != nil {
			return nil, err
		}
	}
	size, err := compilecost.Regex(text)
	if err != nil {
		return nil, err
	}
	if err := size.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	if size.Program > maxProgram {
		return nil, fmt.Errorf("%w: a regular expression that becomes %d instructions", ErrTooLarge, size.Program)
	}
	if env != nil {
		if err := env.steps(size.Steps()); err != nil {
			return nil, err
		}
		if err := env.bytes(int(size.Peak / allocated)); err != nil {
			return nil, err
		}
	}
	p := &pattern{size: size}
	p.Regexp, err = regexp.Compile(text)
	return p, err
}

// allocated is the number of allocated bytes for which a counted byte stands.
const allocated = 4

// withRegex returns a function with this body: the regular expression, the first argument, is compiled together with
// the expression if it is a literal, otherwise by each call.
func withRegex(f Function, body func(env *Env, re *pattern, args []any) (any, error), wrap func(error) error) Function {
	f.call = func(env *Env, args []any) (any, error) {
		re, err := compileRegex(env, args[0].(string))
		if err != nil {
			return nil, wrap(err)
		}
		return body(env, re, args)
	}
	f.regex = true
	f.prepare = func(args []literalArg) callFunc {
		text, ok := args[0].value.(string)
		if !ok || len(text) > maxRegex {
			return nil
		}
		re, err := newPattern(nil, text)
		if err != nil {
			return nil // the call reports the mistake
		}
		return func(env *Env, args []any) (any, error) { return body(env, re, args) }
	}
	return f
}

// steps charges the steps of a search.
func (env *Env) steps(n int64) error { return env.step(int(n)) }

// replaceRegex replaces every match by the template, step by step, so that it notices in time if the result becomes too large. references is
// the number of groups to which the template refers.
func replaceRegex(env *Env, re *pattern, s, template string, references int, expand func(dst []byte, match []int) []byte) (any, error) {
	found, err := re.size.FindAll(re.Regexp, s, maxMatches+1, true, env.steps)
	if err != nil {
		return nil, err
	}
	if found > maxMatches {
		found = maxMatches + 1
	}
	if err := env.bytes(found * 16 * (1 + re.size.Groups)); err != nil {
		return nil, err
	}
	var out []byte
	last := 0
	matches := re.FindAllStringSubmatchIndex(s, maxMatches+1)
	if len(matches) > maxMatches {
		return nil, fmt.Errorf("%w: more than %d matches", ErrTooLarge, maxMatches)
	}
	for _, match := range matches {
		// A name in the template is compared with the names of all groups.
		if err := env.step(16 + len(template)/8 + references*(1+re.size.Groups/16)); err != nil {
			return nil, err
		}
		if err := env.bytes(match[0] - last + len(template) + references*(match[1]-match[0])); err != nil {
			return nil, err
		}
		out = append(out, s[last:match[0]]...)
		out = expand(out, match)
		last = match[1]
	}
	if last == 0 && out == nil {
		return s, nil
	}
	return env.text(string(append(out, s[last:]...)))
}

// literals adds what the regular expressions of n cost that are compiled together with the expression.
func (n *node) literals(cost *compilecost.Cost) {
	for _, c := range append([]*node{n.left, n.right, n.cond}, n.items...) {
		if c != nil {
			c.literals(cost)
		}
	}
	if n.kind != nCall || len(n.items) == 0 || n.items[0].kind != nLiteral {
		return
	}
	text, ok := n.items[0].literal.(string)
	if f := registry[n.name]; !ok || f == nil || !f.regex || len(n.items) != len(f.Args) || len(text) > maxRegex {
		return
	}
	if size, err := compilecost.Regex(text); err == nil { // otherwise the call reports the mistake
		cost.Add(size.Cost)
	}
}
