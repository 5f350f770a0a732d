package impact

import (
	"errors"
	"fmt"
	"slices"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Comparison counts the requests that two sets of policies answer differently: those in force and those that are to replace them. It is used by one
// goroutine.
type Comparison struct {
	// Keep is the number of differences that are kept.
	Keep int

	Requests  int // those that were compared
	Matched   int // those that a policy is about
	Different int
	First     []Difference
	// Unknown counts the records that were not compared, by the reason.
	Unknown map[string]int
	// Unreadable is the number of records among them that cannot be read.
	Unreadable int
}

// Difference is a request with two answers.
type Difference struct {
	At        string `json:"at"` // the place of the record
	Operation string `json:"operation"`
	Resource  string `json:"resource"`
	User      string `json:"user,omitempty"`
	Before    string `json:"before"`
	After     string `json:"after"`
}

// String returns the difference as the end of a sentence.
func (d Difference) String() string {
	by := ""
	if d.User != "" {
		by = " by " + d.User
	}
	return d.Operation + " " + d.Resource + by
}

// Add counts one record.
func (c *Comparison) Add(e *Evaluated) {
	switch {
	case errors.Is(e.Err, ErrSameRequest), errors.Is(e.Err, ErrEarlier), errors.Is(e.Err, ErrNotAdmitted):
		return // a part of another record, or no request for admission
	case e.Err != nil:
		if c.Unknown == nil {
			c.Unknown = map[string]int{}
		}
		c.Unknown[e.Err.Error()]++
		if e.Record.Decision == nil && e.Request == nil && !errors.Is(e.Err, ErrNoObject) {
			c.Unreadable++
		}
		return
	}
	c.Requests++
	if len(e.Before.Results)+len(e.After.Results) > 0 {
		c.Matched++
	}
	before, after := answerOf(&e.Before), answerOf(&e.After)
	if before.denied == after.denied && before.violated == after.violated && before.object == after.object {
		return
	}
	if c.Different++; len(c.First) >= c.Keep {
		return
	}
	name, _ := e.Request.ObjectName() // a difference of an object without a name is shown without it
	d := Difference{At: e.Record.At, Operation: string(e.Request.Operation), Resource: e.Request.RequestGVK.Kind + "/" + name, Before: before.String(), After: after.String()}
	if namespace := e.Request.ObjectNamespace(); namespace != "" {
		d.Resource = namespace + "/" + d.Resource
	}
	if e.Request.User != nil {
		d.User = e.Request.User.Username
	}
	c.First = append(c.First, d)
}

// answer is what a client and the reports see of an answer.
type answer struct {
	denied, violated bool
	message          string
	object           string // the changed object; empty if it is not changed
}

func answerOf(v *Verdict) answer {
	out := answer{denied: !v.Allowed, violated: !v.Allowed, message: v.Message}
	for i := range v.Results {
		if r := &v.Results[i]; r.Status == policy.StatusFail || r.Status == policy.StatusError {
			if out.violated = true; out.message == "" {
				out.message = r.Message
			}
		}
	}
	if v.Object == nil {
		return out
	}
	object, err := v.Object.Value()
	if err != nil {
		return answer{violated: true, message: err.Error()}
	}
	out.object = value.JSON(value.Unordered(object))
	return out
}

func (a answer) String() string {
	text := "pass"
	switch {
	case a.denied:
		text = fmt.Sprintf("deny (%s)", a.message)
	case a.violated:
		text = fmt.Sprintf("a violation (%s)", a.message)
	}
	if a.object != "" {
		text += " and " + a.object
	}
	return text
}

// Reasons returns the reasons for which records were not compared, sorted.
func (c *Comparison) Reasons() (out []string) {
	for why := range c.Unknown {
		out = append(out, why)
	}
	slices.Sort(out)
	return out
}
