package convert

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/source"
)

// comments are the comments of a policy in a file: those before its first line, and for each of its rules those above it and in it.
type comments struct {
	head  []string
	rules [][]string
}

// of returns the comments for the policy that a rule becomes. Those of the whole policy stand above the first one.
func (c *comments) of(rule int) []string {
	out := c.head
	c.head = nil
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
	withoutScalars(lines)
	first, end := o.Line-1, len(lines)
	at := o.Pos("")
	item := at.Line > o.Line && at.Column > 1 // of a List
	if item {
		first = at.Line - 1
		end = endOfItem(lines, first, at.Column-1)
	}
	for first > 0 && comment(lines[first-1]) != "" && !(item && indentationOf(lines[first-1]) >= at.Column) {
		first--
	}
	body := first
	for ; body < end; body++ {
		text := comment(lines[body])
		if text == "" && strings.TrimSpace(lines[body]) != "" && !strings.HasPrefix(lines[body], "---") {
			break
		}
		if text != "" {
			out.head = append(out.head, text)
		}
	}
	for i := body; i < end; i++ {
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

// endOfItem returns the line after an item of a List whose keys have an indentation. Comments before the next item belong to that one.
func endOfItem(lines []string, first, indentation int) int {
	outside := func(line string) bool {
		return strings.TrimSpace(line) != "" && indentationOf(line) < indentation
	}
	end := first + 1
	for end < len(lines) && (!outside(lines[end]) || comment(lines[end]) != "") {
		end++
	}
	for end > first+1 && outside(lines[end-1]) {
		end--
	}
	return end
}

func indentationOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// blockScalar matches the first line of a text of several lines. Its content is indented further than the first group or, in a list, than its dash.
var blockScalar = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\s*(?:- +)*)(?:[^\s#-].*:\s+)?(?:[!&]\S+\s+)*[|>][-+0-9]*\s*(?:#.*)?$`)
})

// withoutScalars empties the lines of texts of several lines, which may look like comments.
func withoutScalars(lines []string) {
	inside := -1 // the least indentation of the text; negative outside of one
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if inside >= 0 && (indentationOf(line) >= inside || strings.TrimSpace(line) == "") {
			lines[i] = ""
			continue
		}
		inside = -1
		if m := blockScalar().FindStringSubmatch(line); m != nil {
			inside = len(m[1]) + 1
			if rest := line[len(m[1]):]; strings.HasSuffix(m[1], " ") && (rest[0] == '|' || rest[0] == '>') {
				inside = strings.LastIndexByte(m[1], '-') + 2
			}
		}
	}
}

// comment returns the text of a line that is a comment; empty for others.
func comment(line string) string {
	if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
		return line
	}
	return ""
}
