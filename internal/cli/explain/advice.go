package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/policy"
	notes "ephor.invalid/ephor/internal/trace"
)

// advise describes in sentences what decided, and what would make the rule pass.
func (x *explanation) advise(rule *policy.Rule) {
	switch x.Verdict {
	case verdictNotRun:
		x.Decided = []string{"an earlier rule of the policy has decided, and spec.applyRules is One"}
	case verdictElse:
		x.Decided = []string{"the policy is for a different namespace than that of the resource, or its match block is empty"}
	case verdictNoMatch:
		x.noMatch()
	case verdictNoResult:
		x.Decided = []string{"the rule has no result: there is no element to check, or it does not evaluate this operation"}
	case "skip":
		x.skipped(rule)
	case "fail", "pass":
		if rule.Payload == policy.HTTPPayload || rule.Payload == policy.EnvoyPayload {
			x.answered()
		} else if x.Verdict == "fail" {
			x.failed(rule)
		}
	case "error":
		x.broken()
	}
}

func (x *explanation) noMatch() {
	for _, f := range x.Filters {
		if strings.HasPrefix(f.Path, "exclude") {
			if f.Holds {
				x.Decided = append(x.Decided, f.Path+" excludes the resource")
			}
			continue
		}
		for _, c := range f.Clauses {
			switch {
			case c.Holds:
			case strings.HasSuffix(c.Path, ".excludeResourceRules"):
				x.Decided = append(x.Decided, fmt.Sprintf("%s: %s is one of %s", x.below(c.Path), oneLine(c.Got), oneLine(c.Want)))
			case strings.HasSuffix(c.Path, ".namespaceSelector") && slices.Contains([]string{"nothing", "{}"}, oneLine(c.Got)):
				x.Decided = append(x.Decided, fmt.Sprintf("%s: the namespace has no labels, or they are not known; the selector needs %s", x.below(c.Path), oneLine(c.Want)))
				x.ToPass = append(x.ToPass, "to be evaluated: add the Namespace to the resources, or its labels to the values (--values-file)")
			default:
				x.Decided = append(x.Decided, fmt.Sprintf("%s: %s is not %s", x.below(c.Path), oneLine(c.Got), oneLine(c.Want)))
			}
		}
	}
}

// below returns a path in the policy relative to the rule.
func (x *explanation) below(path string) string {
	if _, rest, ok := strings.Cut(path, "]."); ok && strings.HasPrefix(path, "spec.rules[") {
		return rest
	}
	if _, rest, ok := strings.Cut(path, "].spec."); ok && strings.HasPrefix(path, "status.autogen.") {
		return rest
	}
	if rest, ok := strings.CutPrefix(path, "spec."); ok && strings.HasPrefix(rest, "matchConstraints.") {
		return rest
	}
	return path
}

func (x *explanation) skipped(rule *policy.Rule) {
	if len(x.Exceptions) > 0 {
		x.Decided = append(x.Decided, "the resource is exempt by "+strings.Join(x.Exceptions, ", "))
		return
	}
	for _, c := range x.Notes.Conditions {
		if strings.HasPrefix(c.Path, rule.Path+".preconditions") && !c.Holds {
			x.Decided = append(x.Decided, x.below(c.Path)+" does not hold: "+sentenceOf(c))
		}
	}
	for _, p := range x.Notes.Patterns {
		if p.Status == "skip" {
			what := "pattern"
			if rule.Stage.Has(policy.StageMutate) {
				what = "patch"
			}
			x.Decided = append(x.Decided, fmt.Sprintf("%s says that the %s is not for this resource: %s", x.below(p.Node), what, message(p)))
		}
	}
	if len(x.Decided) == 0 {
		x.skippedCEL()
	}
	if len(x.Decided) == 0 && rule.Stage.Has(policy.StageMutate) {
		x.Decided = append(x.Decided, "the patch changes nothing: the resource already has the values that it sets, or has no element to which it applies")
	}
}

// message explains why a value does not match a pattern. Kyverno's text for a value of another type contains names of Go types.
func message(p notes.Pattern) string {
	switch {
	case p.Mapping && p.Cause == notes.Missing:
		return "the pattern needs a mapping at " + p.At + ", and there is nothing"
	case p.Mapping:
		return "the pattern needs a mapping at " + p.At + ", and there is something else"
	}
	return p.Message
}

func (x *explanation) failed(rule *policy.Rule) {
	x.unsigned()
	alternatives := 0
	for _, p := range x.Notes.Patterns {
		if p.Status == "fail" || p.Status == "error" {
			alternatives++
			x.Decided = append(x.Decided, fmt.Sprintf("%s: %s", x.below(p.Node), message(p)))
		}
	}
	one := ""
	if alternatives > 1 {
		one = "one of: "
	}
	for _, p := range x.Notes.Patterns {
		if p.Status == "fail" || p.Status == "error" {
			x.ToPass = append(x.ToPass, one+x.toMatch(p))
		}
	}
	for _, f := range x.Notes.Fields {
		x.Decided = append(x.Decided, fmt.Sprintf("%s: %s", f.At, f.Reason))
		switch {
		case f.Required:
			x.ToPass = append(x.ToPass, required(f))
		case f.Value == nil:
			x.ToPass = append(x.ToPass, "remove "+f.At)
		default:
			x.ToPass = append(x.ToPass, fmt.Sprintf("do not let %s be %s", f.At, oneLine(f.Value)))
		}
	}
	if len(x.Decided) == 0 {
		x.failedCEL()
	}
	if rule.Stage == policy.StageDelete {
		for _, c := range x.Notes.Conditions {
			if !c.Holds {
				x.Decided = append(x.Decided, x.below(c.Path)+" does not hold, so it is not deleted: "+sentenceOf(c))
				x.ToPass = append(x.ToPass, fmt.Sprintf("change what %s is (now %s), so that it is %s %s", oneLine(c.KeySource), oneLine(c.Key), c.Operator, oneLine(c.Value)))
			}
		}
	}
	for _, c := range x.denied() {
		x.Decided = append(x.Decided, x.below(c.Path)+" holds: "+sentenceOf(c))
		advice := opposite(c)
		if strings.Contains(c.Path, ".all[") {
			advice = "one of: " + advice
		}
		x.ToPass = append(x.ToPass, advice)
	}
	if len(x.Decided) == 0 && rule.Stage.Has(policy.StageVerifyImages) && x.Message != "" {
		x.Decided = []string{x.Message} // the result of the stage without registry queries: a digest or a record is missing
	}
	if len(x.Decided) == 0 && rule.Kind == "validate.deny" {
		x.Decided = []string{"validate.deny has no conditions: it always denies"}
		x.ToPass = []string{"nothing in the resource: only match, exclude or preconditions keep the rule from it"}
	}
	x.ToPass = dedupe(x.ToPass)
}

// required describes the value that a missing field must have.
func required(f notes.Field) string {
	for _, known := range []struct{ field, value string }{
		{".allowPrivilegeEscalation", "false"},
		{".capabilities.drop", "[ALL]"},
		{".runAsNonRoot", "true"},
		{".seccompProfile.type", "RuntimeDefault or Localhost"},
	} {
		if strings.HasSuffix(f.At, known.field) {
			return "set " + f.At + ": it has to be " + known.value
		}
	}
	return "set " + f.At + " as the control " + f.Control + " asks"
}

// denied returns the conditions that made a deny block deny: the true conditions of the block that was evaluated last. In a
// foreach, the same conditions were evaluated before for other elements.
func (x *explanation) denied() []notes.Condition {
	var out []notes.Condition
	block := ""
	seen := map[string]bool{}
	for _, c := range slices.Backward(x.Notes.Conditions) {
		in := c.Path[:max(0, strings.Index(c.Path, ".deny."))]
		if in == "" || block != "" && in != block || seen[c.Path] {
			break
		}
		block, seen[c.Path] = in, true
		if c.Holds {
			out = append(out, c)
		}
	}
	slices.Reverse(out)
	return out
}

// toMatch describes how to change the resource so that it matches the decisive part of the pattern.
func (x *explanation) toMatch(p notes.Pattern) string {
	key := p.Node[strings.LastIndex(p.Node, ".")+1:]
	at := strings.TrimSuffix(p.At, "/")
	switch p.Cause {
	case notes.Present:
		return "remove " + at
	case notes.NoElement:
		return fmt.Sprintf("let at least one element of %s fit %s", at, x.below(p.Node))
	case notes.Missing:
		if p.Key != "" {
			at = strings.TrimSuffix(p.At, "/") + "/" + p.Key
		}
		if p.Want == nil { // a map or a list
			return fmt.Sprintf("add %s, so that it fits %s", at, x.below(p.Node))
		}
		return fmt.Sprintf("add %s: %s", cmp.Or(at, key), wanted(p.Want))
	case notes.Value:
		return fmt.Sprintf("set %s: %s", cmp.Or(at, key), wanted(p.Want))
	}
	return fmt.Sprintf("let %s fit %s", at, x.below(p.Node))
}

// wanted describes in words what a scalar of a pattern requires.
func wanted(v any) string {
	s, ok := v.(string)
	if !ok {
		return "it has to be " + oneLine(v)
	}
	switch s {
	case "*":
		return "it may be anything but null"
	case "?*":
		return "it may be anything but empty"
	case "":
		return "it has to be the empty text"
	}
	var alternatives []string
	for _, a := range strings.Split(s, "|") {
		var all []string
		for _, part := range strings.Split(a, "&") {
			all = append(all, wantedTerm(strings.TrimSpace(part)))
		}
		alternatives = append(alternatives, strings.Join(all, " and "))
	}
	return "it has to be " + strings.Join(alternatives, ", or ")
}

func wantedTerm(s string) string {
	for _, o := range []struct{ prefix, words string }{
		{">=", "at least "}, {"<=", "at most "}, {">", "more than "}, {"<", "less than "}, {"!", "anything but "},
	} {
		if rest, ok := strings.CutPrefix(s, o.prefix); ok && rest != "" {
			return o.words + strings.TrimSpace(rest)
		}
	}
	return s
}

// reason returns what is wrong where a value cannot be evaluated, and how to correct it. The message of the result keeps Kyverno's text, which
// names every step that led to the error, and ends in "<nil>" in some cases.
func reason(text string, err error) (why, hint string) {
	why, hint = offline.Explain(text, err)
	return strings.TrimSuffix(why, ": <nil>"), hint
}

// broken finds the parts that could not be evaluated.
func (x *explanation) broken() {
	x.unsigned()
	for _, list := range [][]notes.Variable{x.Notes.Context, x.Notes.Variables} {
		for _, v := range list {
			if v.Error != "" {
				text, hint := reason(v.Error, v.Err)
				x.Decided = append(x.Decided, fmt.Sprintf("%s has no value: %s", v.Name, text))
				switch {
				case v.MissingKey != "":
					x.ToPass = append(x.ToPass, fmt.Sprintf("give %s a value when it is missing: {{ %s || '' }}", v.Name, v.Name))
				case hint != "":
					x.ToPass = append(x.ToPass, hint)
				}
			}
		}
	}
	for _, f := range x.Filters {
		for _, c := range f.Clauses {
			if c.Error != "" {
				x.Decided = append(x.Decided, fmt.Sprintf("%s: %s", x.below(c.Path), c.Error))
			}
		}
	}
	for _, p := range x.Notes.Patterns {
		if p.Status == "error" {
			x.Decided = append(x.Decided, fmt.Sprintf("%s: %s", x.below(p.Node), message(p)))
			x.ToPass = append(x.ToPass, x.toMatch(p))
		}
	}
	x.Decided, x.ToPass = dedupe(x.Decided), dedupe(x.ToPass)
}

// opposites are the words for what makes a condition false: for a single value, and for a list.
var opposites = map[string][2]string{
	"Equal": {"not be", "not be"}, "Equals": {"not be", "not be"}, "NotEqual": {"be", "be"}, "NotEquals": {"be", "be"},
	"AnyIn": {"be none of", "have nothing of"}, "In": {"be none of", "have something other than"}, "AllIn": {"be none of", "have something other than"},
	"AnyNotIn": {"be one of", "have nothing but"}, "NotIn": {"be one of", "have something of"}, "AllNotIn": {"be one of", "have something of"},
	"GreaterThan": {"be at most"}, "GreaterThanOrEquals": {"be less than"}, "LessThan": {"be at least"}, "LessThanOrEquals": {"be more than"},
	"DurationGreaterThan": {"be at most"}, "DurationGreaterThanOrEquals": {"be less than"}, "DurationLessThan": {"be at least"}, "DurationLessThanOrEquals": {"be more than"},
}

// ofOne are these words for a list of one text, and for such a text with wildcards.
var ofOne = map[string][2]string{
	"not be": {"not be", "not match"}, "be": {"be", "match"}, "be none of": {"not be", "not match"}, "be one of": {"be", "match"},
}

// opposite says what makes a condition false.
func opposite(c notes.Condition) string {
	source, wanted := oneLine(c.KeySource), c.Value
	if text, ok := c.KeySource.(string); ok {
		source = text
		if name, only := strings.CutPrefix(text, "{{"); only && strings.Count(text, "{{") == 1 && strings.HasSuffix(text, "}}") {
			source = strings.TrimSpace(strings.TrimSuffix(name, "}}"))
		}
	}
	words := opposites[c.Operator][0]
	if _, list := c.Key.([]any); list {
		words = opposites[c.Operator][1]
	}
	if list, ok := wanted.([]any); ok && len(list) == 1 && ofOne[words][0] != "" {
		wanted = list[0]
	}
	if text, ok := wanted.(string); ok && ofOne[words][0] != "" {
		words = ofOne[words][0]
		if strings.ContainsAny(text, "*?") {
			words = ofOne[opposites[c.Operator][0]][1]
		}
	}
	if words == "" {
		return fmt.Sprintf("change %s (now %s), so that it is not %s %s", source, oneLine(c.Key), c.Operator, oneLine(c.Value))
	}
	return fmt.Sprintf("let %s (now %s) %s %s", source, oneLine(c.Key), words, oneLine(wanted))
}

// sentenceOf formats a condition with the values of both sides.
func sentenceOf(c notes.Condition) string {
	if c.Error != "" {
		why, _ := reason(c.Error, c.Err)
		return fmt.Sprintf("%s %s %s cannot be evaluated: %s", oneLine(c.KeySource), c.Operator, oneLine(c.ValueSource), why)
	}
	s := fmt.Sprintf("%s %s %s", oneLine(c.Key), c.Operator, oneLine(c.Value))
	if text, ok := c.KeySource.(string); ok && strings.Contains(text, "{{") {
		s += fmt.Sprintf(" (%s is %s)", strings.TrimSpace(text), oneLine(c.Key))
	}
	return s
}

func dedupe(list []string) []string {
	seen := map[string]bool{}
	out := list[:0]
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
