package decision

import (
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/world/taped"
)

// Lookups holds the lookups of the rules of one review. With them, the review can be evaluated again without the cluster.
type Lookups struct {
	// The lookups, in order.
	List []Lookup `json:"list,omitempty" proto:"1"`
	// Salt of the digests of hidden parts.
	Salt string `json:"salt,omitempty" proto:"2,hex"`
	// Kinds of lookups that rules could not make at all, as ⟨reach⟩ ⟨member⟩.
	Lacks []string `json:"lacks,omitempty" proto:"3"`
	// Whether some lookups are not recorded, since there were too many.
	Clipped bool `json:"clipped,omitempty" proto:"4"`
	// Whether lookups are recorded, and the reader may not read everything. Nothing else is set then.
	Withheld bool `json:"withheld,omitempty"`
}

// Lookup is one lookup with its answer. Equal lookups are recorded once.
type Lookup struct {
	// What was called.
	Method string `json:"method" proto:"1"`
	// Namespace to which the rule is confined, * if it is not confined; absent for a lookup about the request itself.
	Reach string `json:"reach,omitempty" proto:"2"`
	// The request without the parts that may hold credentials.
	Asked string `json:"asked,omitempty" proto:"3"`
	// Digest of those parts.
	Digest string `json:"digest,omitempty" proto:"4,hex"`
	// The JSON text of the answer; absent if error or unknown is set.
	Answer *Body `json:"answer,omitempty" proto:"5"`
	// Why there was no answer.
	Error *taped.Failure `json:"error,omitempty" proto:"6"`
	// Why the answer is not recorded: cut, large or unsteady.
	Unknown string `json:"unknown,omitempty" proto:"7"`
}

// Reasons why an answer is not recorded.
const (
	// CutAnswer: the request or the answer holds a value of a Secret, a value that the Redaction selects, or a user whose name is not recorded.
	CutAnswer = "cut"
	// LargeAnswer: the answer, or all answers of the review together, are too large.
	LargeAnswer = "large"
	// UnsteadyAnswer: an equal lookup of the same review had another answer.
	UnsteadyAnswer = "unsteady"
)

// bodies returns pointers to the fields that hold answers.
func (l *Lookups) bodies() (out []**Body) {
	if l == nil {
		return nil
	}
	for i := range l.List {
		if l.List[i].Answer != nil {
			out = append(out, &l.List[i].Answer)
		}
	}
	return out
}

// clone returns a copy whose list may be changed.
func (l *Lookups) clone() *Lookups {
	if l == nil {
		return nil
	}
	out := *l
	out.List = slices.Clone(l.List)
	return &out
}

// Answers returns the answers of the lookups, in order; nil for a lookup without an answer.
func (l *Lookups) Answers() []*Body {
	if l == nil {
		return nil
	}
	out := make([]*Body, len(l.List))
	for i := range l.List {
		out[i] = l.List[i].Answer
	}
	return out
}

// WithAnswers returns a copy with these answers. There may be fewer answers than lookups.
func (l *Lookups) WithAnswers(answers []*Body) *Lookups {
	out := l.clone()
	for i := range out.List {
		out.List[i].Answer = nil
		if i < len(answers) {
			out.List[i].Answer = answers[i]
		}
	}
	return out
}

// Texts for reasons why an answer is not on a tape.
const (
	absent         = "it was not looked up"
	absentCut      = "it was not looked up, or it held a value that is never recorded"
	absentClipped  = "there were more lookups than are recorded"
	absentWithheld = "lookups are shown to readers who may list everything"
)

var unknownWords = map[string]string{
	CutAnswer: "it held a value that is never recorded", LargeAnswer: "the answer was too large", UnsteadyAnswer: "it had several answers",
}

// errNoSuchAnswer is the error for an answer that is missing although the record refers to it.
var errNoSuchAnswer = errors.New("the answer is missing in the record")

// Tape returns a tape that gives the answers that the reviews of one request got at the time. live allows new lookups where an answer is
// not recorded.
func Tape(reviews []*Lookups, at time.Time, live bool) *taped.Tape {
	r := taped.Recorded{Time: at, Absent: absent, Unsteady: unknownWords[UnsteadyAnswer], Live: live}
	for _, l := range reviews {
		switch {
		case l.Withheld:
			r.Absent = absentWithheld
		case l.Clipped:
			r.Absent = absentClipped
		case r.Absent == absent && slices.ContainsFunc(l.List, func(x Lookup) bool { return x.Unknown == CutAnswer && x.Asked == "" }):
			r.Absent = absentCut
		}
		r.Lacks = append(r.Lacks, l.Lacks...)
		r.Reels = append(r.Reels, l.reel())
	}
	return taped.Replay(r)
}

func (l *Lookups) reel() (out taped.Reel) {
	out.Salt, _ = hex.DecodeString(l.Salt) // without a salt, no digest matches
	for i := range l.List {
		x := &l.List[i]
		one := taped.Lookup{
			Method: x.Method, Reach: x.Reach, Asked: x.Asked, Digest: x.Digest, Failure: x.Error, Version: x.Unknown, Unknown: unknownWords[x.Unknown],
			Text: func() ([]byte, error) {
				if x.Answer == nil {
					return nil, errNoSuchAnswer
				}
				return x.Answer.appendText(nil)
			},
		}
		if x.Unknown != "" && one.Unknown == "" {
			one.Unknown = x.Unknown // a reason of a later version
		}
		if x.Answer != nil {
			one.Version += x.Answer.Digest
		}
		if x.Error != nil {
			one.Version += x.Error.Text
		}
		out.Lookups = append(out.Lookups, one)
	}
	return out
}
