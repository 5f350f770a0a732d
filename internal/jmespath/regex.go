package jmespath

import (
	"fmt"
	"regexp"
	"sync"
)

// maxRegex bounds the text of a regular expression; the longest of public policies has some 700 bytes.
const maxRegex = 16 << 10

// maxRegexes bounds the cache of expressions that are not literals: an evaluation usually repeats a few.
const maxRegexes = 256

var regexes struct {
	sync.RWMutex
	byText map[string]*regexp.Regexp
}

// compileRegex compiles a regular expression, or takes it from the cache. A full cache is emptied: cheaper than keeping
// an order, and the few expressions that live policies make of data are soon back.
func compileRegex(text string) (*regexp.Regexp, error) {
	if len(text) > maxRegex {
		return nil, fmt.Errorf("%w: a regular expression of %d bytes", ErrTooLarge, len(text))
	}
	regexes.RLock()
	re := regexes.byText[text]
	regexes.RUnlock()
	if re != nil {
		return re, nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	regexes.Lock()
	defer regexes.Unlock()
	if regexes.byText == nil || len(regexes.byText) >= maxRegexes {
		regexes.byText = map[string]*regexp.Regexp{}
	}
	regexes.byText[text] = re
	return re, nil
}

// withRegex makes a function of its body: the regular expression, the first argument, is compiled with the expression
// when it is a literal, else by each call.
func withRegex(f Function, body func(env *Env, re *regexp.Regexp, args []any) (any, error), wrap func(error) error) Function {
	f.call = func(env *Env, args []any) (any, error) {
		re, err := compileRegex(args[0].(string))
		if err != nil {
			return nil, wrap(err)
		}
		return body(env, re, args)
	}
	f.prepare = func(args []literalArg) callFunc {
		text, ok := args[0].value.(string)
		if !ok || len(text) > maxRegex {
			return nil
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return nil // the call says so
		}
		return func(env *Env, args []any) (any, error) { return body(env, re, args) }
	}
	return f
}

// regexSteps counts the work of matching: the engine is linear in the text times the expression.
func regexSteps(env *Env, re *regexp.Regexp, s string) error {
	return env.step(1 + len(s)*(1+len(re.String())/16)/64)
}

// replaceRegex replaces every match in steps, so that the size of the result is known before it gets out of hand.
func replaceRegex(env *Env, re *regexp.Regexp, s string, expand func(dst []byte, match []int) []byte) (any, error) {
	if err := regexSteps(env, re, s); err != nil {
		return nil, err
	}
	var out []byte
	last, counted := 0, 0
	var failed error
	for _, match := range re.FindAllStringSubmatchIndex(s, -1) {
		out = append(out, s[last:match[0]]...)
		out = expand(out, match)
		last = match[1]
		if failed = env.bytes(len(out) - counted); failed != nil {
			return nil, failed
		}
		counted = len(out)
	}
	if last == 0 && out == nil {
		return s, nil
	}
	return env.text(string(append(out, s[last:]...)))
}
