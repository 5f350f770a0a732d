package decision

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world/taped"
)

// Limits of the recorded lookups of a review, in bytes.
const (
	maxAnswer  = 256 << 10
	maxAnswers = 1 << 20
	// maxSecretTexts bounds the values of Secrets in answers that are replaced in other texts. If there are more, every other text is
	// replaced as a whole.
	maxSecretTexts = 4096
	maxSecretBytes = 1 << 20
)

// found has values in lookups that are never recorded.
type found struct {
	values []string
	bytes  int
	many   bool // there are more than maxSecretTexts
}

func (f *found) add(text string) {
	if len(text) < short || f.many {
		return
	}
	if f.bytes += len(text); f.bytes > maxSecretBytes || len(f.values) >= maxSecretTexts {
		f.many, f.values = true, nil
		return
	}
	f.values = append(f.values, text)
	if plain, err := base64.StdEncoding.DecodeString(text); err == nil && len(plain) >= short {
		f.values = append(f.values, string(plain))
	}
}

// secretsIn finds the values of Secrets and tokens anywhere in an answer, and reports whether there are any. of means that the whole answer
// is data of Secrets, whatever its form.
func (f *found) secretsIn(v any, of bool) (some bool) {
	switch x := v.(type) {
	case string:
		if of {
			f.add(x)
		}
	case []any:
		for _, e := range x {
			some = f.secretsIn(e, of) || some
		}
	case map[string]any:
		version, _ := x["apiVersion"].(string)
		kind, _ := x["kind"].(string)
		_, object := x["metadata"].(map[string]any)
		_, list := x["items"].([]any)
		switch {
		case kinds.IsSecret(version, kind), of && object && !list:
			f.secretsIn(x["data"], true)
			f.secretsIn(x["stringData"], true)
			f.annotation(x)
			return true
		case kinds.IsSecret(version, strings.TrimSuffix(kind, "List")), of && list:
			f.secretsIn(x["items"], true)
			return true
		case kind == "TokenRequest" || kind == "TokenReview":
			for _, part := range []string{"spec", "status"} {
				inner, _ := x[part].(map[string]any)
				f.secretsIn(inner["token"], true)
			}
			return true
		}
		for _, e := range x {
			some = f.secretsIn(e, of) || some
		}
	}
	return some || of
}

// annotation adds the values in the copy of a Secret that kubectl keeps.
func (f *found) annotation(secret map[string]any) {
	metadata, _ := secret["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[lastApplied].(string)
	if text == "" {
		return
	}
	copied, err := value.DecodeJSON([]byte(text))
	if object, ok := copied.(map[string]any); err == nil && ok {
		f.secretsIn(object["data"], true)
		f.secretsIn(object["stringData"], true)
		return
	}
	f.add(text)
}

// heldNotes holds the notes of a tape that wait to be recorded, without answers that are too large or that are data of Secrets. hidden
// returns the values of the latter.
type heldNotes struct {
	taped.Notes
	unknown []string // of each entry; empty for an answer that may be recorded
	found   found
	size    int
}

func holdNotes(t *taped.Tape) *heldNotes {
	if t == nil {
		return nil
	}
	h := &heldNotes{Notes: t.Close()}
	h.unknown = make([]string, len(h.Entries))
	for i := range h.Entries {
		e := &h.Entries[i]
		answerSize := value.Size(jsonOf(e.Answer), maxAnswer+1)
		switch secret := h.found.secretsIn(jsonOf(e.Answer), e.Secrets); {
		case secret && e.Err == nil:
			h.unknown[i] = CutAnswer
		case answerSize > maxAnswer:
			h.unknown[i] = LargeAnswer
		case h.size+answerSize > maxAnswers:
			h.unknown[i] = LargeAnswer
		case e.Unsteady:
			h.unknown[i] = UnsteadyAnswer
		}
		if h.unknown[i] != "" {
			e.Answer, answerSize = nil, 0
		}
		const each = 256
		h.size += each + answerSize + len(e.Asked)
		for _, text := range e.Hidden {
			h.size += len(text)
		}
	}
	return h
}

// bytes estimates the memory of the notes.
func (h *heldNotes) bytes() int {
	if h == nil {
		return 0
	}
	return h.size + 2*h.found.bytes
}

// jsonOf returns an answer as a JSON value. Answers of other types are small, and stay as they are.
func jsonOf(v any) any {
	if list, ok := v.([]map[string]any); ok {
		out := make([]any, len(list))
		for i := range list {
			out[i] = list[i]
		}
		return out
	}
	return v
}

// hidden returns the values in the lookups that no text of the record may contain, in every form.
func (h *heldNotes) hidden() []string {
	if h == nil {
		return nil
	}
	if h.found.many {
		return everything
	}
	return formsOf(slices.Clone(h.found.values))
}

// lookupsOf returns the lookups of a record. hidden are the values that no text may contain; named means that the record has the name of the
// user.
func (f *Feed) lookupsOf(h *heldNotes, req *policy.Request, hidden []string, named bool) (*Lookups, error) {
	all := slices.Contains(hidden, everything[0])
	if u := req.User; u != nil && !named {
		hidden = append(slices.Clip(hidden), u.Username)
		if u.UID != "" {
			hidden = append(hidden, u.UID)
		}
		for _, g := range u.Groups {
			if !strings.HasPrefix(g, "system:") {
				hidden = append(hidden, g)
			}
		}
	}
	out := &Lookups{Lacks: h.Lacks, Clipped: h.Clipped, List: make([]Lookup, 0, len(h.Entries))}
	var salt []byte
	pointers := f.Redaction.anywhere()
	for i := range h.Entries {
		e := &h.Entries[i]
		x := Lookup{Method: e.Method, Reach: e.Reach, Asked: taped.Brief(e.Asked), Unknown: h.unknown[i]}
		personal := !named && (taped.Personal(e.Method) || len(e.Hidden) > 0) // a digest of a name can be guessed
		if personal || all || containsAny(hidden, e.Asked) {
			// The request contains the value, so it is not recorded either.
			x.Unknown, x.Asked = CutAnswer, ""
			out.List = append(out.List, x)
			continue
		}
		if len(e.Hidden) > 0 {
			if salt == nil {
				salt = make([]byte, 16)
				_, _ = rand.Read(salt) // never fails
				out.Salt = hex.EncodeToString(salt)
			}
			x.Digest = taped.Digest(salt, e.Method, e.Reach, e.Asked, e.Hidden)
		}
		var err error
		switch {
		case x.Unknown != "":
		case e.Err != nil:
			x.Error = taped.FailureOf(e.Err)
			if containsAny(hidden, x.Error.Text) || containsAny(e.Guarded, x.Error.Text) || slices.ContainsFunc(x.Error.Args, func(a string) bool { return containsAny(hidden, a) || containsAny(e.Guarded, a) }) {
				x.Error, x.Unknown = nil, CutAnswer
			}
		default:
			x.Answer, x.Unknown, err = f.answer(e, hidden, pointers)
		}
		if err != nil {
			return nil, err
		}
		out.List = append(out.List, x)
	}
	return out, nil
}

// answer returns the body of an answer; unknown is the reason why there is none.
func (f *Feed) answer(e *taped.Entry, hidden []string, pointers [][]string) (b *Body, unknown string, err error) {
	text, err := taped.Text(e.Answer)
	if err != nil {
		return nil, "", err
	}
	if len(text) > maxAnswer {
		return nil, LargeAnswer, nil
	}
	if containsAny(hidden, text) || containsAny(e.Guarded, text) {
		return nil, CutAnswer, nil
	}
	p, err := f.known.of("/lookups", text, func() (*part, error) {
		p := &part{size: len(text), text: text}
		if len(pointers) > 0 {
			_, p.cut, _, err = cut(text, "", pointers)
		}
		return p, err
	})
	if err != nil {
		return nil, "", err
	}
	if len(p.cut) > 0 {
		return nil, CutAnswer, nil
	}
	if err := p.takeBody(); err != nil {
		return nil, "", err
	}
	return p.body, "", nil
}

// containsAny reports whether a text contains one of the values.
func containsAny(values []string, text string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return len(v) >= short && strings.Contains(text, v) })
}

// anywhere returns the pointers of the Redaction for answers, in which objects may be at any level.
func (r *Redaction) anywhere() (out [][]string) {
	if r == nil || len(r.pointers) == 0 {
		return nil
	}
	for _, p := range append(slices.Clip(r.pointers), copyPointer) {
		if p[0] != "**" {
			p = append([]string{"**"}, p...)
		}
		out = append(out, p)
	}
	return out
}
