package celrule

import (
	"regexp"
	"strings"
	"sync"
)

var (
	keyInHas     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`has\(\s*([\w.]+)\[\s*('[^']*'|"[^"]*")\s*\]\s*\)`) })
	mapOperation = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\s*['"](op|path|value)['"]\s*:`) })
)

// hint returns how to correct a mistake that is often made in an expression; empty for others. why is the compiler's reason.
func hint(text, path, why string) string {
	switch {
	case strings.Contains(why, "invalid argument to has() macro"):
		if m := keyInHas().FindStringSubmatch(text); m != nil {
			return "has() tests fields: write " + m[2] + " in " + m[1]
		}
		return "has() tests fields, as in has(object.data); whether a map has a key is 'key' in object.data"
	case strings.Contains(why, "undeclared reference to 'now'"):
		return "the current time is time.now()"
	case strings.HasSuffix(path, ".jsonPatch.expression") && mapOperation().MatchString(text):
		return "write each operation as JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}"
	}
	return ""
}
