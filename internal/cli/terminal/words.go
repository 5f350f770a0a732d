package terminal

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Counted returns a number followed by the singular or plural of a word.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Indented indents JSON by two spaces for each level.
func Indented(text string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		return text
	}
	return b.String()
}
