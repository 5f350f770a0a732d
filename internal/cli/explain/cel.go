package explain

import (
	"fmt"
	"slices"
	"strings"

	notes "ephor.invalid/ephor/internal/trace"
)

// failedCEL reports which CEL expression made the rule fail. The first expression that is false or ends in an error ends the rule.
func (x *explanation) failedCEL() {
	v := x.lastCEL(func(v notes.Variable) bool { return v.Value == false || v.Error != "" })
	switch {
	case v == nil:
	case v.Error != "":
		x.Decided = append(x.Decided, "the expression has no value: "+v.Name+": "+v.Error)
		x.ToPass = append(x.ToPass, "give it a value: "+v.Name)
	default:
		x.Decided = append(append(x.Decided, "the expression is false: "+v.Name), reasons(v)...)
		x.ToPass = append(x.ToPass, "make it true: "+v.Name)
	}
}

// answered reports which expression answered a check request, and its answer.
func (x *explanation) answered() {
	v := x.lastCEL(func(v notes.Variable) bool {
		answer, _ := v.Value.(map[string]any)
		_, ok := answer["allowed"]
		return ok
	})
	if v != nil {
		x.Decided = append(x.Decided, "the answer is "+oneLine(v.Value)+": "+strings.TrimSpace(v.Name))
	}
}

// skippedCEL reports which CEL condition excludes the resource.
func (x *explanation) skippedCEL() {
	if v := x.lastCEL(func(v notes.Variable) bool { return v.Value == false }); v != nil {
		x.Decided = append(append(x.Decided, "the condition is false: "+v.Name), reasons(v)...)
	}
}

// lastCEL returns the last expression for which is returns true, or nil if there is none.
func (x *explanation) lastCEL(is func(notes.Variable) bool) *notes.Variable {
	for i, v := range slices.Backward(x.Notes.Variables) {
		if v.CEL && is(v) {
			return &x.Notes.Variables[i]
		}
	}
	return nil
}

// reasons explains why an expression is false. It lists the innermost parts that are false, with the values that they read.
func reasons(v *notes.Variable) (out []string) {
	for i, p := range v.Parts {
		if p.Value != false || p.Error != "" {
			continue
		}
		inside := partsOf(v.Parts, i)
		if slices.ContainsFunc(inside, func(p notes.Part) bool { return p.Value == false }) {
			continue
		}
		out = append(out, p.Source+" is false"+since(inside))
	}
	if len(out) == 0 {
		if why := since(v.Parts); why != "" {
			out = []string{strings.TrimPrefix(why, ": ")}
		}
	}
	return dedupe(out)
}

// partsOf returns the parts inside part i.
func partsOf(all []notes.Part, i int) []notes.Part {
	end := i + 1
	for end < len(all) && all[end].Depth > all[i].Depth {
		end++
	}
	return all[i+1 : end]
}

// since lists the values that were read, which are the parts that contain no other parts.
func since(parts []notes.Part) string {
	var out []string
	for i, p := range parts {
		if p.Error != "" || len(partsOf(parts, i)) > 0 {
			continue
		}
		out = append(out, fmt.Sprintf("%s is %s", p.Source, oneLine(p.Value)))
	}
	if out = dedupe(out); len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}
