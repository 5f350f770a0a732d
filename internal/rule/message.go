package rule

import (
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/pattern"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/value"
)

// textNotString replaces a message whose variables do not result in a string.
const textNotString = "the produced message didn't resolve to a string, check your policy definition."

// message is the message of a rule: none, a text, or a text with variables.
type message struct {
	text    string // as the author wrote it
	dynamic *template.Template
}

// message compiles the authored message. Its variables are evaluated only if a rule fails. An unresolved variable changes the text of the
// failure but not its status, so malformed variables are reported as mistakes but do not break the rule.
func (c *compiler) message(text, path string) message {
	text = c.quoted(text)
	t := template.Compile(text, template.Options{Path: "/validate/message", Allowance: c.in.Allowance})
	for _, d := range t.Diags() {
		d.Path = path
		c.harmless.Add(d)
	}
	c.reads.Add(t)
	if v, static := t.Static(); static {
		return message{text: v.(string)}
	}
	return message{text: text, dynamic: t}
}

// quoted returns the message in which references $( ) to the pattern are resolved.
func (c *compiler) quoted(text string) string {
	if c.quotable == nil || !strings.Contains(text, "$(") {
		return text
	}
	field, raw := "pattern", c.quotable.RawPattern
	if raw == nil {
		field, raw = "anyPattern", c.quotable.RawAnyPattern
	}
	if raw == nil {
		return text
	}
	v, err := value.DecodeJSON(raw.Raw)
	if err != nil {
		return text // the compiler of the pattern reports the mistake
	}
	return pattern.Quote(text, map[string]any{field: v})
}

// empty reports whether the author wrote no message.
func (m *message) empty() bool { return m.dynamic == nil && m.text == "" }

// resolve returns the message with its variables substituted.
func (m *message) resolve(s *scope.Scope) (string, error) {
	if m.dynamic == nil {
		return m.text, nil
	}
	v, err := m.dynamic.Eval(s.QueryEnv(), s)
	if err != nil {
		return "", err
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	return textNotString, nil
}

// orAuthored is resolve, but a message with a variable that has no value stays as it was written, with the reason.
func (m *message) orAuthored(s *scope.Scope) string {
	text, err := m.resolve(s)
	switch {
	case err == nil:
		return text
	case budget.Over(err):
		return "the message was not made: " + err.Error()
	}
	return m.text + " (a variable of this message has no value: " + err.Error() + ")"
}

// sentence adds the full stop with which pattern failures end a message.
func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}
