package autogen

import (
	"regexp"
	"strings"
	"sync"
)

// family is one of the two groups of pod controllers, with the location of their pod template.
type family struct {
	prefix   string // of the rule's name
	template []string
	text     *strings.Replacer // for rules in the language of patterns and JMESPath
	cel      *strings.Replacer // for rules in CEL
}

var (
	templated = newFamily("autogen-", "spec", "template")
	cronJob   = newFamily("autogen-cronjob-", "spec", "jobTemplate", "spec", "template")
)

func newFamily(prefix string, template ...string) *family {
	at := strings.Join(template, ".") + "."
	return &family{
		prefix:   prefix,
		template: template,
		text: strings.NewReplacer(
			"request.object.spec", "request.object."+at+"spec",
			"request.object.metadata", "request.object."+at+"metadata",
			"request.oldObject.spec", "request.oldObject."+at+"spec",
			"request.oldObject.metadata", "request.oldObject."+at+"metadata"),
		cel: strings.NewReplacer(
			"object.spec", "object."+at+"spec",
			"object.metadata", "object."+at+"metadata",
			"oldObject.spec", "oldObject."+at+"spec",
			"oldObject.metadata", "oldObject."+at+"metadata"),
	}
}

// maxNameLength is the longest rule name; longer generated names are cut.
const maxNameLength = 63

// Derived returns the names of the rules that Expand derives from a rule: for controllers, and for CronJobs.
func Derived(authored string) (controllers, cronJobs string) {
	return templated.ruleName(authored), cronJob.ruleName(authored)
}

func (f *family) ruleName(authored string) string {
	name := f.prefix + authored
	if len(name) > maxNameLength {
		name = strings.ToValidUTF8(name[:maxNameLength], "")
	}
	return name
}

// wrap puts a pattern for a Pod into the pod template of a controller.
func (f *family) wrap(pattern any) any {
	for i := len(f.template) - 1; i >= 0; i-- {
		pattern = map[string]any{f.template[i]: pattern}
	}
	return pattern
}

// rewriteText replaces text in all keys and values of a JSON tree. It does not change its input.
func rewriteText(v any, r *strings.Replacer) any { return rewrite(v, r.Replace, r.Replace) }

// rewrite changes the keys and the texts of a JSON tree. It does not change its input.
func rewrite(v any, key, text func(string) string) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = rewrite(e, key, text)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[key(k)] = rewrite(e, key, text)
		}
		return out
	}
	return v
}

// absolute finds `$(…)` whose path starts at the root of the pattern, after an operator if there is one. The backslash of an escape is a
// part of it.
var absolute = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\\?\$\(([<>=!]*)(/[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)`)
})

// shiftAbsolute prefixes the absolute references of a pattern with the pod template, since wrap moves what they refer to.
func (f *family) shiftAbsolute(pattern any) any {
	return rewrite(pattern, func(k string) string { return k }, func(s string) string {
		if !strings.Contains(s, "$(") {
			return s
		}
		return absolute().ReplaceAllStringFunc(s, func(found string) string {
			if found[0] == '\\' {
				return found
			}
			return absolute().ReplaceAllString(found, "$$(${1}/"+strings.Join(f.template, "/")+"${2})")
		})
	})
}

// reference finds `$(…)` with an absolute path, or with a path that contains the segment pattern. Both point into
// the rule's pattern, which autogen moves into the template.
var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\(([^()/]*)((?:[^()]*/pattern)?)/([^()./][^()]*)\)`)
})

// shiftReferences prefixes the pattern references of a message with the pod template.
func (f *family) shiftReferences(message string) string {
	if !strings.Contains(message, "$(") {
		return message
	}
	return reference().ReplaceAllString(message, "$$(${1}${2}/"+strings.Join(f.template, "/")+"/${3})")
}
