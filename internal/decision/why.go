package decision

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Explanation is a record in words, as `ephor why` prints it.
type Explanation struct {
	// Summary is the request and its outcome; How describes how it was answered.
	Summary string `json:"summary"`
	How     string `json:"how"`
	// Rules has the results of the rules. If it is empty, there may be the message of a refusal.
	Rules   []Explained `json:"rules"`
	Message string      `json:"message,omitempty"`
}

// Explained is the result of one rule.
type Explained struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

// Resource returns namespace/Kind/name of the object, with the subresource.
func (r *Record) Resource() string {
	text := r.Kind + "/" + r.Name
	if r.Namespace != "" {
		text = r.Namespace + "/" + text
	}
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	return text
}

// Explain describes a record in words: the outcome of the request, then the result of each rule.
func (r *Record) Explain() Explanation {
	answer := "admitted"
	switch {
	case !r.Allowed:
		answer = "refused"
	case r.Verdict != Passed:
		answer += fmt.Sprintf(" (%s)", r.Verdict)
	}
	if r.DryRun {
		answer += ", dry run"
	}
	out := Explanation{
		Summary: fmt.Sprintf("%s %s by %s at %s: %s", r.Operation, r.Resource(), cmp.Or(r.User, "?"), r.Time.UTC().Format(time.RFC3339), answer),
		How:     fmt.Sprintf("asked by a %s, answered in %s, policies %s", r.Webhook, r.Duration.Round(time.Microsecond), cmp.Or(r.Policies, "?")),
		Rules:   []Explained{},
	}
	for _, x := range r.Rules {
		name := "policy " + x.Policy
		if x.Rule != "" {
			name += ", rule " + x.Rule
		}
		said := Explained{Title: fmt.Sprintf("%s -> resource %s: %s", name, r.Resource(), x.Status), Lines: []string{x.Action}}
		if x.Message != "" {
			said.Lines = append(said.Lines, "message: "+x.Message)
		}
		if x.Path != "" {
			said.Lines = append(said.Lines, "path: "+x.Path)
		}
		if len(x.Exceptions) > 0 {
			said.Lines = append(said.Lines, "exempt by: "+strings.Join(x.Exceptions, ", "))
		}
		out.Rules = append(out.Rules, said)
	}
	if len(r.Rules) == 0 {
		out.Message = r.Message
	}
	return out
}
