package admission

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// response is the answer to a review. The zero response with a UID denies without a message.
type response struct {
	uid     string
	allowed bool
	message string
	patch   []byte // JSON patch; nil for none
	// annotations become part of the request's audit event.
	annotations map[string]string
	warnings    []string
	// refusedAs is the UID of the recorded decision, which a further line of the message names; empty for none.
	refusedAs string

	// Further information that is not part of the answer: the results of the rules that were evaluated before it, the changed object if
	// there is a patch, and the auditing rules that are still to be evaluated; nil for none.
	results []policy.Result
	object  *value.Doc
	later   *audit
}

// maxAnswer bounds the bytes of an answer's message, and of all its warnings together, since each of many rules may add one.
const maxAnswer = 8 * value.MaxMessage

// append appends the AdmissionReview with the answer, in the layout of encoding/json for the typed one.
func (r *response) append(b []byte) []byte {
	b = append(b, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":`...)
	b = value.AppendJSON(b, r.uid)
	if r.allowed {
		b = append(b, `,"allowed":true`...)
	} else {
		b = append(b, `,"allowed":false,"status":{"metadata":{},"status":"Failure","message":`...)
		b = value.AppendJSON(b, value.Clip(r.message, maxAnswer)+r.further())
		b = append(b, '}')
	}
	if r.patch != nil {
		b = append(b, `,"patch":"`...)
		b = base64.StdEncoding.AppendEncode(b, r.patch)
		b = append(b, `","patchType":"JSONPatch"`...)
	}
	b = appendAnnotations(b, r.annotations)
	left := maxAnswer
	for i, w := range r.warnings {
		w = value.Message(w)
		if left -= len(w); left < 0 && i > 0 {
			w = fmt.Sprintf("%d more warnings are left out", len(r.warnings)-i)
		}
		if i == 0 {
			b = append(b, `,"warnings":[`...)
		} else {
			b = append(b, ',')
		}
		b = value.AppendJSON(b, oneLine(w))
		if left < 0 {
			break
		}
	}
	if len(r.warnings) > 0 {
		b = append(b, ']')
	}
	return append(b, `}}`...)
}

// further returns the line after the message by which the decision is found.
func (r *response) further() string {
	if r.refusedAs == "" {
		return ""
	}
	line := "decision " + r.refusedAs + " (ephor why " + r.refusedAs + " --exception requests an exception)"
	if strings.HasSuffix(r.message, "\n") {
		return line
	}
	return "\n" + line
}

// appendAnnotations appends annotations, sorted by key, up to maxAnswer bytes.
func appendAnnotations(b []byte, annotations map[string]string) []byte {
	if len(annotations) == 0 {
		return b
	}
	left, opening := maxAnswer, `,"auditAnnotations":{`
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		text := value.Message(annotations[key])
		if left -= len(key) + len(text); left < 0 {
			break
		}
		b = append(b, opening...)
		b = value.AppendJSON(b, key)
		b = append(b, ':')
		b = value.AppendJSON(b, text)
		opening = ","
	}
	return append(b, '}')
}

// oneLine replaces line breaks and other control characters by blanks, since the API server drops warnings that contain them.
func oneLine(s string) string {
	if strings.IndexFunc(s, unicode.IsControl) < 0 {
		return s
	}
	return strings.Join(strings.FieldsFunc(s, unicode.IsControl), " ")
}
