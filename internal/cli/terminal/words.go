package terminal

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Counted is a number with its word in the singular or the plural.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Indented is JSON with two blanks for each level.
func Indented(text string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		return text
	}
	return b.String()
}
