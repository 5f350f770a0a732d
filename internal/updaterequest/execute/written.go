package execute

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// A patch may append to what it finds, so a retry of a rule leaves out the targets that it has already changed for the UpdateRequest. After
// a failure, they are in an annotation of the UpdateRequest, for the replica that continues the work.

const (
	// writtenAnnotation holds the digests of targets that were changed, in base64, after the generation of the UpdateRequest with their request.
	writtenAnnotation = names.Domain + "changed-targets"
	// maxWritten is the maximum number of digests in the annotation.
	maxWritten = 10_000
	// lastWrite limits the time for the annotation when this process ends.
	lastWrite = 2 * time.Second
)

// digest identifies a target of a rule.
type digest [8]byte

// written are the targets that a rule has changed for an UpdateRequest: those in the annotation, which are shared, and those of this process.
type written struct {
	recorded, own map[digest]bool
	unsure        map[digest]unanswered // targets whose write was not answered
	turns         map[string]int        // the targets of the current attempt, since several targets of a rule may select the same object
	prefix        string
}

// unanswered is a write that was not answered: the content that the target has if it was made, and what it did (digest.of).
type unanswered struct{ content, change digest }

// next returns the digest of the next target of an attempt.
func (x *written) next(m *policy.Mutated) digest {
	u := &unstructured.Unstructured{Object: m.Before}
	text := fmt.Sprintf("%s %q %q %q %q %q", x.prefix, u.GroupVersionKind().GroupKind(), u.GetNamespace(), u.GetName(), u.GetUID(), m.Subresource)
	x.turns[text]++
	sum := sha256.Sum256(fmt.Appendf([]byte(text), " %d", x.turns[text]))
	return digest(sum[:len(digest{})])
}

func (x *written) has(d digest) bool { return x.recorded[d] || x.own[d] }

// made reports whether a target has the content of a write that was not answered, and returns what that write did.
func (x *written) made(d digest, m *policy.Mutated) (change digest, made bool) {
	u, ok := x.unsure[d]
	return u.change, ok && u.content == contentOf(m.Before)
}

// failed keeps what a failed write would have made of a target, if the write may have been made: the answer was lost, or is an error of the
// server.
func (x *written) failed(d, change digest, m *policy.Mutated, err error) {
	var status apierrors.APIStatus
	if m.After == nil || errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError {
		delete(x.unsure, d)
		return
	}
	x.unsure[d] = unanswered{contentOf(m.After), change}
}

// contentOf identifies the content of an object, without what the API server sets.
func contentOf(object map[string]any) digest {
	content := maps.Clone(object)
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
		delete(metadata, field)
	}
	content["metadata"] = metadata
	sum := sha256.Sum256(value.AppendJSON(nil, content))
	return digest(sum[:len(digest{})])
}

// writtenBy returns the targets that a rule has changed, for the next attempt, which adds to them. A new request changes all targets again.
func (p *progress) writtenBy(u *kyvernov2.UpdateRequest, r kyvernov2.RuleContext) *written {
	if p.written[r] == nil {
		p.written[r] = map[digest]bool{}
	}
	if p.unsure[r] == nil {
		p.unsure[r] = map[digest]unanswered{}
	}
	return &written{p.recorded, p.written[r], p.unsure[r], map[string]int{}, fmt.Sprintf("%q %q", r.Rule, updaterequest.TriggerID(r.Trigger))}
}

// requestOf returns the generation that identifies the request of an UpdateRequest; 0 if it has none.
func requestOf(u *kyvernov2.UpdateRequest) string {
	if updaterequest.Asked(u) {
		return fmt.Sprint(u.Generation)
	}
	return "0"
}

// writtenText returns the annotation for the targets that were changed for the request of an UpdateRequest; empty for none.
func writtenText(u *kyvernov2.UpdateRequest, p *progress) string {
	all := maps.Clone(p.recorded)
	for _, own := range p.written {
		maps.Copy(all, own)
	}
	if len(all) == 0 {
		return ""
	}
	digests := make([]digest, 0, len(all))
	for d := range all {
		digests = append(digests, d)
	}
	slices.SortFunc(digests, func(a, b digest) int { return strings.Compare(string(a[:]), string(b[:])) })
	var content []byte
	for _, d := range digests[:min(len(digests), maxWritten)] {
		content = append(content, d[:]...)
	}
	return requestOf(u) + ":" + base64.RawStdEncoding.EncodeToString(content)
}

// writtenIn returns the targets in the annotation of an UpdateRequest that were changed for its current request.
func writtenIn(u *kyvernov2.UpdateRequest) map[digest]bool {
	out := map[digest]bool{}
	request, text, _ := strings.Cut(u.Annotations[writtenAnnotation], ":")
	content, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || request != requestOf(u) {
		return out
	}
	for d := range slices.Chunk(content, len(digest{})) {
		if len(d) == len(digest{}) {
			out[digest(d)] = true
		}
	}
	return out
}

// recordWritten adds the targets that an attempt has changed to the annotation. If this fails, another replica may change them again.
func (x *finisher) recordWritten(ctx context.Context, u *kyvernov2.UpdateRequest, p *progress) {
	text := writtenText(u, p)
	if text == "" || text == u.Annotations[writtenAnnotation] {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	next := u.DeepCopy()
	next.Annotations = union(next.Annotations, map[string]string{writtenAnnotation: text})
	if err := x.client.Update(ctx, next); err != nil {
		x.log.Debug("the changed targets of an UpdateRequest could not be recorded", "name", u.Name, "error", err)
		return
	}
	*u = *next
}
