package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var (
	quoted     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("'([^']*)'|`([^`]*)`|\"([^\"]*)\"") })
	digits     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?[0-9]{1,15}$`) })
	readsTimes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\btime_(since|diff|after|before|between|add)\(`) })
	lastField  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[.]"?([A-Za-z][\w./-]*)"?\s*(?:\|\|[^|]*)?\}\}$`) })
	compared   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(\w+)"?\s*==\s*(?:'([^'{]*)'|"([^"{]*)")`) })
	measurable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+)([A-Za-z]{1,3})$`) })
)

// collect collects the words and numbers in a part of the policy.
func (s *sampler) collect(v any) {
	switch v := v.(type) {
	case map[string]any:
		s.wantCompared(v)
		for k, e := range v {
			switch k {
			case "labels", "annotations", "matchLabels", "=(labels)", "=(annotations)":
				m, _ := e.(map[string]any)
				for name := range m {
					name = strings.Trim(strings.TrimLeft(name, "=^X<+"), "()")
					s.labels = append(s.labels, instance(name, "x"))
				}
				if _, variable := e.(string); variable { // a map that is merged with what the resource has
					s.labels = append(s.labels, "example.com/one")
				}
			case "message", "schedule":
				continue
			case "expression": // in CEL
				if text, ok := e.(string); ok {
					s.collectExpression(text)
				}
				continue
			}
			s.collect(e)
		}
	case []any:
		for _, e := range v {
			s.collect(e)
		}
	case string:
		s.collectText(v)
	case int64:
		s.numbers = append(s.numbers, v-1, v, v+1)
	}
}

func (s *sampler) collectText(text string) {
	s.aged = s.aged || strings.Contains(text, "creationTimestamp")
	s.timed = s.timed || readsTimes().MatchString(text)
	if strings.Contains(text, "request.object") || strings.Contains(text, "element.") || strings.Contains(text, "{{") {
		s.targetFields(text)
		s.want(text)
		for _, m := range quoted().FindAllStringSubmatch(text, -1) {
			s.addWord(m[1] + m[2] + m[3])
		}
		return
	}
	for _, alternative := range strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == '&' }) {
		s.addWord(strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(alternative), "!<>= ")))
	}
}

func (s *sampler) addWord(w string) {
	if strings.Contains(w, "{{") || strings.Contains(w, "}}") {
		return
	}
	if n, err := strconv.ParseInt(w, 10, 64); err == nil && digits().MatchString(w) {
		s.numbers = append(s.numbers, n-1, n, n+1)
	}
	if m := measurable().FindStringSubmatch(w); m != nil {
		if n, err := strconv.ParseInt(m[1], 10, 32); err == nil {
			s.words = append(s.words, fmt.Sprint(n+1)+m[2], fmt.Sprint(max(0, n-1))+m[2])
		}
	}
	for _, fill := range []string{"", "x"} {
		if one := instance(w, fill); !slices.Contains(s.words, one) {
			s.words = append(s.words, one)
		}
	}
}

// want notes the texts with which filters compare fields: most values of a random resource would fit none.
func (s *sampler) want(text string) {
	for _, m := range compared().FindAllStringSubmatch(text, -1) {
		s.wantIn(m[1], m[2]+m[3])
	}
}

func (s *sampler) wantIn(field, text string) {
	if s.wanted == nil {
		s.wanted = map[string][]string{}
	}
	if !slices.Contains(s.wanted[field], text) {
		s.wanted[field] = append(s.wanted[field], text)
	}
}

// wantCompared notes the texts with which a condition compares the field that its key ends with.
func (s *sampler) wantCompared(condition map[string]any) {
	key, _ := condition["key"].(string)
	m := lastField().FindStringSubmatch(key)
	if m == nil || condition["operator"] == nil {
		return
	}
	values, isList := condition["value"].([]any)
	if !isList {
		values = []any{condition["value"]}
	}
	for _, v := range values {
		if text, ok := v.(string); ok && !strings.Contains(text, "{{") {
			s.wantIn(m[1], instance(text, "x"))
		}
	}
}

// instance returns a text that the wildcard pattern matches.
func instance(pattern, fill string) string {
	return strings.NewReplacer("*", fill, "?", "q").Replace(pattern)
}

// collectExpressions collects the words in the expressions of a policy in CEL.
func (s *sampler) collectExpressions(validations any) {
	all, _ := validations.([]any)
	for _, v := range all {
		one, _ := v.(map[string]any)
		expression, _ := one["expression"].(string)
		s.collectExpression(expression)
	}
}

func (s *sampler) collectExpression(expression string) {
	s.want(expression)
	for _, m := range quoted().FindAllStringSubmatch(expression, -1) {
		s.addWord(m[1] + m[3])
	}
}
