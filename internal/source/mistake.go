package source

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	yamlv2 "go.yaml.in/yaml/v2"

	"ephor.invalid/ephor/internal/diag"
)

// yamlMistake returns the parser's complaint about the document, with its line.
func (d Document) yamlMistake(err error) diag.Diagnostic {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine().FindString(text); m != "" {
		text = text[len(m):]
	}
	line := mistakeLine(d.text, text)
	hint := yamlHint(text)
	if strings.ContainsRune(d.text, 0) && invalidUTF8(d.text) >= 0 { // UTF-16 is valid UTF-8 here
		return diag.Diagnostic{Pos: diag.Position{File: d.File, Line: d.base + 1}, Summary: "broken YAML: " + text, Hint: "this is not a text, but a picture, an archive or another binary file"}
	}
	if at := invalidUTF8(d.text); at >= 0 {
		line = lineOf(d.text, at)
		begin := strings.LastIndexByte(d.text[:at], '\n') + 1
		hint = fmt.Sprintf("the byte 0x%02X, number %d of the line, is not UTF-8: save the file as UTF-8, which editors offer next to Latin-1 or Windows-1252", d.text[at], at-begin+1)
	} else if bareVariableText().MatchString(lineText(d.text, line)) {
		hint = "quote a value that has a variable: \"{{ … }}\""
	}
	if indentedByTab(d.text, line) {
		hint = "indent with spaces, not tabs"
	}
	return diag.Diagnostic{
		Pos:     diag.Position{File: d.File, Line: d.base + line},
		Summary: "broken YAML: " + text,
		Hint:    hint,
	}
}

// unrendered replaces the mistakes of a document that is a template of Helm by one that says so, at the first of them.
func (d Document) unrendered(diags diag.List) diag.List {
	errs := diags.Errors()
	if len(errs) == 0 || !helmText().MatchString(d.text) {
		return diags
	}
	first := errs[0]
	first.Code, first.Hint = diag.HelmTemplate, "this looks like a template of Helm: render it first, with helm template"
	return diag.List{first}
}

// bareVariableText matches a line whose value begins with a variable that is not quoted.
var bareVariableText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^#"']*[:-]\s+\{\{`) })

// helmText matches a template of Helm that is not rendered.
var helmText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\\{\\{-?\\s*(`\\{\\{|\\.(Values|Release|Chart|Capabilities|Template)\\b|(include|template|if|range|with|define|end)\\b)")
})

// lineText returns a line of the text; lines count from 1.
func lineText(text string, line int) string {
	lines := strings.SplitN(text, "\n", line+1)
	if line < 1 || line > len(lines) {
		return ""
	}
	return lines[line-1]
}

// invalidUTF8 returns the index of the first byte that is not UTF-8; negative if there is none.
func invalidUTF8(text string) int {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}

func indentedByTab(text string, line int) bool {
	lines := strings.SplitAfterN(text, "\n", line+1)
	if line > len(lines) {
		return false
	}
	l := lines[line-1]
	return strings.ContainsRune(l[:len(l)-len(strings.TrimLeft(l, " \t"))], '\t')
}

var (
	yamlLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^line (\d+): `) })
	yamlAnchor = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unknown anchor '(.*)' referenced`) })
)

// mistakeLine finds the line of a mistake. The parser reports lines in two ways: its third version reports where the
// faulty construct began, which is correct for an unclosed one; its second version reports where the mistake was
// detected, which is correct otherwise. Neither counts the first line, so an empty line is put before the text.
func mistakeLine(text, mistake string) int {
	if m := yamlAnchor().FindStringSubmatch(mistake); m != nil {
		return lineOf(text, strings.Index(text, "*"+m[1]))
	}
	if strings.HasPrefix(mistake, "control characters") {
		return lineOf(text, strings.IndexFunc(text, func(r rune) bool {
			return r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 && r != 0x85
		}))
	}
	_, err := nodes("\n" + text)
	line := lineIn(err)
	if noticed := strings.HasPrefix(mistake, "did not find expected ") || strings.Contains(mistake, "tab"); noticed {
		var v any
		if at := lineIn(yamlv2.Unmarshal([]byte("\n"+text), &v)); at > 0 {
			line = at
			if strings.HasPrefix(mistake, "did not find") {
				line++ // these messages count lines from zero
			}
		}
	}
	return min(max(line-1, 1), strings.Count(text, "\n")+1)
}

func lineIn(err error) int {
	if err == nil {
		return 0
	}
	m := yamlLine().FindStringSubmatch(strings.TrimPrefix(err.Error(), "yaml: "))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// lineOf returns the line of a byte of the text, the first line if there is no such byte.
func lineOf(text string, i int) int {
	return strings.Count(text[:max(i, 0)], "\n") + 1
}

// yamlHint says how to correct the parser's most frequent complaints.
func yamlHint(text string) string {
	switch {
	case strings.Contains(text, "tab"):
		return "indent with spaces, not tabs"
	case strings.Contains(text, "mapping values are not allowed"):
		return "check the indentation, and quote a value that contains `: `"
	case strings.Contains(text, "did not find expected key"), strings.Contains(text, "did not find expected '-' indicator"):
		return "check the indentation of this line and of the one before"
	case strings.Contains(text, "could not find expected ':'"):
		return "a key needs a colon and a space after it"
	case strings.Contains(text, "unknown anchor"):
		return "define the anchor with & in the same document before it is used, or quote a value that begins with *"
	case strings.Contains(text, "unexpected end of stream"), strings.Contains(text, "unexpected document indicator"):
		return "a quote or bracket is not closed"
	case strings.Contains(text, "did not find expected alphabetic or numeric character"):
		return "quote a value that begins with * or &"
	case strings.Contains(text, "control characters"), strings.Contains(text, "invalid leading UTF-8"):
		return "save the file as UTF-8 text"
	case strings.Contains(text, "cannot start any token"):
		return "quote a value that begins with this character"
	}
	return "correct the document"
}
