package convert

import (
	"fmt"
	"os"
	"strings"

	"ephor.invalid/ephor/internal/source"
)

// comments are the comments of a policy in a file: those before its first line, and for each of its rules those above it and in it.
type comments struct {
	head  []string
	rules [][]string
}

// of returns the comments for the policy that a rule becomes. Those of the whole policy stand above that of its first rule.
func (c *comments) of(rule int) (out []string) {
	if rule == 0 {
		out = append(out, c.head...)
	}
	if rule < len(c.rules) {
		if len(out) > 0 && len(c.rules[rule]) > 0 {
			out = append(out, "#")
		}
		out = append(out, c.rules[rule]...)
	}
	return out
}

// commentsOf reads the comments of a policy with a number of rules; none if it does not come from a file.
func commentsOf(o source.Object, rules int) *comments {
	out := &comments{rules: make([][]string, rules)}
	raw, err := os.ReadFile(o.File)
	if err != nil || o.Line < 1 {
		return out // standard input, or a repository that is no longer there
	}
	lines := strings.Split(string(raw), "\n")
	first := o.Line - 1
	for first > 0 && comment(lines[first-1]) != "" {
		first--
	}
	end, body := len(lines), first
	for ; body < len(lines); body++ {
		text := comment(lines[body])
		if text == "" && strings.TrimSpace(lines[body]) != "" && !strings.HasPrefix(lines[body], "---") {
			break
		}
		if text != "" {
			out.head = append(out.head, text)
		}
	}
	for i := body; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "---") {
			end = i
			break
		}
	}
	starts := make([]int, 0, rules)
	for i := range rules {
		at := o.Pos(fmt.Sprintf("spec.rules[%d]", i)).Line - 1
		for at > body && at <= len(lines) && comment(lines[at-1]) != "" {
			at--
		}
		starts = append(starts, max(at, body))
	}
	for i, from := range starts {
		to := end
		if i+1 < len(starts) {
			to = starts[i+1]
		}
		for _, line := range lines[min(from, len(lines)):max(min(to, len(lines)), min(from, len(lines)))] {
			if text := comment(line); text != "" {
				out.rules[i] = append(out.rules[i], text)
			}
		}
	}
	return out
}

// comment returns the text of a line that is a comment; empty for others.
func comment(line string) string {
	if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
		return line
	}
	return ""
}
