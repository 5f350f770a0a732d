package decision

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Redacted replaces values that are cut.
const Redacted = "**REDACTED**"

// short is the length below which a value is not replaced individually: a text that contains one is replaced as a whole.
const short = 4

// secrets returns the values of the Secrets of a request, in every form in which a text may contain them; nil for other requests.
func secrets(req *policy.Request) (out []string) {
	if req.GVR.Group != "" || req.GVR.Resource != "secrets" {
		return nil
	}
	for _, d := range []*value.Doc{req.Object, req.OldObject} {
		object, err := d.Whole().Map()
		if err != nil {
			continue
		}
		for _, field := range []string{"data", "stringData"} {
			content, _ := object[field].(map[string]any)
			for _, v := range content {
				text, ok := v.(string)
				if !ok || text == "" {
					continue
				}
				out = append(out, forms(text)...)
				if plain, err := base64.StdEncoding.DecodeString(text); err == nil && len(plain) > 0 {
					out = append(out, forms(string(plain))...)
				}
				if len(out) > maxForms {
					return everything
				}
			}
		}
	}
	longestFirst(out)
	return out
}

// maxForms bounds the forms of values for which texts about one request are searched.
const maxForms = 4 * maxSecretTexts

// everything stands for more values than that: any text may contain one of them.
var everything = []string{""}

// forms returns a text, the text as part of a JSON string, and its base64.
func forms(text string) []string {
	out := []string{text, base64.StdEncoding.EncodeToString([]byte(text))}
	if quoted := value.JSON(text); quoted[1:len(quoted)-1] != text {
		out = append(out, quoted[1:len(quoted)-1])
	}
	if trimmed := strings.TrimSpace(text); trimmed != text && trimmed != "" {
		out = append(out, trimmed)
	}
	return out
}

// formsOf returns all forms of some values, the longest first. It leaves out short values, such as 1 or yes, since many texts contain them.
func formsOf(values []string) (out []string) {
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		if len(v) >= short {
			out = append(out, forms(v)...)
		}
		if len(out) > maxForms {
			return everything
		}
	}
	longestFirst(out)
	return out
}

// longestFirst sorts texts, the longest first, since one may contain another.
func longestFirst(texts []string) {
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
}

// hiding joins two lists of values to hide. It changes neither list.
func hiding(a, b []string) []string {
	out := joined(a, b)
	if len(a) > 0 && len(b) > 0 {
		longestFirst(out)
	}
	return out
}

// joined returns both lists as one. It changes neither list.
func joined(a, b []string) []string {
	switch {
	case len(a) == 0:
		return slices.Clip(b)
	case len(b) == 0:
		return slices.Clip(a)
	}
	return slices.Concat(a, b)
}

// Hide returns a function that replaces the values of the request's Secrets, and those that the Redaction selects, in texts about the request.
// Only one goroutine may use it. If the objects cannot be read, it replaces every text as a whole.
func (r *Redaction) Hide(req *policy.Request) func(text string) string {
	hidden := sync.OnceValues(func() ([]string, error) {
		c, err := r.copyOf(req, nil)
		return append(secrets(req), c.hidden...), err
	})
	return func(text string) string {
		if text == "" {
			return ""
		}
		values, err := hidden()
		if err != nil {
			return Redacted
		}
		return withoutSecrets(text, values)
	}
}

// withoutSecrets returns a text without the values. A text that shows the beginning of a value, or is truncated and may end with one, is replaced as a whole.
func withoutSecrets(text string, values []string) string {
	if len(values) == 0 || text == "" {
		return text
	}
	if len(text) >= value.MaxMessage {
		return Redacted
	}
	for _, v := range values {
		switch {
		case !strings.Contains(text, v):
		case len(v) < short:
			return Redacted
		default:
			text = strings.ReplaceAll(text, v, Redacted)
		}
	}
	if end := strings.LastIndex(text, "…"); end >= 0 && slices.ContainsFunc(values, func(v string) bool { return strings.Contains(text[:end], v[:min(len(v), short)]) }) {
		return Redacted // value.Clip has cut a part of the text
	}
	return text
}
